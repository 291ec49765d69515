#include "interrupt.h"

#include <csignal>

namespace sam3::cli {

namespace {

volatile std::sig_atomic_t asked_to_stop = 0;

void on_signal(int number) {
    asked_to_stop = 1;
    std::signal(number, SIG_DFL);
}

}  // namespace

void catch_interrupts() {
    asked_to_stop = 0;
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
}

bool interrupted() { return asked_to_stop != 0; }

}  // namespace sam3::cli
