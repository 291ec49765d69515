#include "sam3.h"

const char* sam3_version() { return SAM3_VERSION; }
