#include <sam3_c.h>

#include <stdio.h>

int main(void) {
    printf("%s\n", sam3_c_version());
    return 0;
}
