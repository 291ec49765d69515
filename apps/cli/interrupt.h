#pragma once

namespace sam3::cli {

// From here on the first Ctrl-C (or SIGTERM, which Slurm and Kubernetes send) only asks the work to stop after the
// current item; the second ends the process at once.
void catch_interrupts();
bool interrupted();

}  // namespace sam3::cli
