#!/usr/bin/env bash
# install_test.sh CMAKE BUILD SOURCES CXX CC: installs, then builds and runs consumers with find_package and pkg-config.
set -euo pipefail
cmake=$1 build=$2 sources=$3 cxx=$4 cc=$5
root=$(cd "$sources/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
version=$("$prefix/bin/sam3" --version)
version=${version#sam3 }

mkdir "$work/consumer"
cp "$sources/consumer.cpp" "$work/consumer/"
cat >"$work/consumer/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 14)
find_package(sam3 REQUIRED)
add_executable(consumer consumer.cpp)
target_link_libraries(consumer PRIVATE sam3::sam3)
TEXT
"$cmake" -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" \
    >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/consumer/build" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name sam3.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
"$cxx" -std=c++14 $(pkg-config --cflags sam3) "$sources/consumer.cpp" -o "$work/with_pkg_config" $(pkg-config --libs sam3)
# shellcheck disable=SC2046
"$cc" -std=c11 $(pkg-config --cflags sam3) "$root/examples/follow.c" -o "$work/follow" $(pkg-config --libs sam3)

export LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for program in "$work/consumer/build/consumer" "$work/with_pkg_config"; do
    found=$("$program")
    [ "$found" = "$version" ] || { echo "expected version $version, found $found from $program" >&2; exit 1; }
done

"$work/follow" "$root/models/sam3-shapes.gguf" "$root/assets/clip.mp4" "red square" >"$work/follow.tsv"
frames=$(awk -F'\t' 'NR > 1 && $3 == "red square" && $4 > 0.5 { print $1 }' "$work/follow.tsv" | sort -un | wc -l)
[ "$frames" = 24 ] || { cat "$work/follow.tsv"; echo "expected a red square on 24 frames, found it on $frames" >&2; exit 1; }
! "$work/follow" "$root/models/sam3-shapes.gguf" absent.mp4 "red square" 2>"$work/follow.err"
grep -q '^follow: .*absent.mp4' "$work/follow.err" || { cat "$work/follow.err"; exit 1; }
! "$work/follow" 2>"$work/follow.err"
grep -q '^usage: .*MODEL VIDEO PHRASE' "$work/follow.err" || { cat "$work/follow.err"; exit 1; }
echo "find_package, pkg-config and C consumers run with sam3 $version"
