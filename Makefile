# The front door. `make help` lists what there is; the work is done by CMake and the scripts.
.DEFAULT_GOAL := help
.PHONY: help build demo test bench lint format asan fuzz install clean

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS ?= 2
SECONDS ?= 10
PREFIX ?= /usr/local
# ccache where it is installed: a second build takes seconds.
LAUNCHER := $(if $(shell command -v ccache 2>/dev/null),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
# The GPU's plug-in compiles where nvcc is, for one kind of GPU: tests need no more, and each kind takes minutes.
CUDA := $(if $(shell command -v nvcc 2>/dev/null),-DSAM3_CUDA=ON -DSAM3_CUDA_ARCHITECTURES=90a $(subst CXX,CUDA,$(LAUNCHER)))
CPP_FILES = $(shell git ls-files -co --exclude-standard -- '*.cpp' '*.h' '*.cu' '*.cuh')

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build:  ## the program, as build/sam3
	@scripts/install-deps
	cmake --preset release $(LAUNCHER)
	cmake --build build -j $(JOBS) --target sam3_cli

demo:  ## build, then segment example pictures with the model in the box
	@$(MAKE) --no-print-directory build
	@scripts/demo

test:  ## everything that must hold: warnings are errors, all tests
	@scripts/install-deps --test
	cmake --preset ci $(LAUNCHER) $(CUDA)
	cmake --build build -j $(JOBS)
	ctest --test-dir build --output-on-failure -j $(TEST_JOBS)

bench:  ## the benchmarks; prints JSON
	@scripts/install-deps
	cmake --preset release $(LAUNCHER)
	cmake --build build -j $(JOBS)
	@scripts/bench

lint:  ## clang-format, the layers, clang-tidy over what changed (ALL=1: everything)
	@scripts/install-deps --lint
	@scripts/lint

format:  ## rewrite the C++ files with clang-format
	clang-format -i $(CPP_FILES)

asan:  ## the tests under address and undefined-behaviour sanitizers
	@scripts/install-deps --test
	cmake --preset asan $(LAUNCHER)
	cmake --build build-asan -j $(JOBS)
	# Figures of quality take minutes each here, and cli.eval runs the same code. Those of halves, whose bounds are close,
	# belong to the optimiser's roundings; stand_in.bf16 runs them.
	ctest --test-dir build-asan --output-on-failure -j $(TEST_JOBS) -LE slow -E '^cli\.quality|^engine\.Bf16\.'

fuzz:  ## every fuzzer for SECONDS=10
	@scripts/install-deps --fuzz
	fuzz/run $(SECONDS)

install: build  ## library, headers and program into PREFIX=/usr/local
	cmake --build build -j $(JOBS)
	cmake --install build --prefix $(PREFIX)

clean:  ## remove what was built
	rm -rf build build-debug build-asan build-fuzz out
