#include <sam3.h>
#include <sam3_c.h>

#include <cstdio>
#include <cstring>

// Both headers in one program; the version must come out of the library.
int main() {
    std::printf("%s\n", sam3_version());
    return std::strcmp(sam3_version(), sam3_c_version()) == 0 ? 0 : 1;
}
