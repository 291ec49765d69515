#pragma once

#include "sam3_c.h"

#include "api/handles.h"

#include <string>

// What the files of the C interface share. They stand on sam3.h: each call is one of its calls, behind a check that
// what is pointed at is there.

struct sam3_c_session {
    // Trackers hold it too.
    struct Work {
        std::shared_ptr<sam3_model> model;
        sam3_state_ptr state;
    };
    std::shared_ptr<Work> work;
};

struct sam3_c_result {
    sam3_result result;
};

namespace sam3::api {

template <typename T>
T* given(T* pointer, const char* what) {
    if (pointer == nullptr) fail(what, " is NULL");
    return pointer;
}

// The result of a call of sam3.h that has just ended: null when it failed.
sam3_c_result* new_result(sam3_result result);
sam3_image rgb_image(const uint8_t* rgb, int width, int height);
sam3_pvs_params params_of(const sam3_c_clicks& clicks);

}  // namespace sam3::api
