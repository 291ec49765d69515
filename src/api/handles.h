#pragma once

#include "sam3.h"

#include "engine/image_session.h"
#include "engine/model.h"
#include "util/error.h"

#include <exception>
#include <memory>
#include <new>
#include <string>

// What the files of this folder share: the handles behind the opaque types, and how exceptions become error texts.

struct sam3_model {
    std::shared_ptr<const sam3::Model> model;
};

struct sam3_state {
    std::shared_ptr<const sam3::Model> model;
    std::shared_ptr<sam3::ImageSession> session;
};

namespace sam3::api {

inline thread_local std::string last_error;

// Runs `body`; an exception becomes the thread's error text and `fallback`.
template <typename Result, typename Body>
Result guarded(Result fallback, const Body& body) {
    try {
        last_error.clear();
        return body();
    } catch (const std::bad_alloc&) {
        last_error = "out of memory";
    } catch (const std::exception& error) {
        last_error = error.what();
    } catch (...) {
        last_error = "unknown error";
    }
    return fallback;
}

Image to_image(const sam3_image& image);
sam3_image from_image(Image image);
sam3_mask from_mask(const Mask& mask);
sam3_detection make_detection(int id, const Box& box, const Mask& mask, float score, float object_score);
VisualQuery to_query(const sam3_pvs_params& params);
// The state's session; fails when the state was freed.
const std::shared_ptr<ImageSession>& session_of(const sam3_state& state);

}  // namespace sam3::api
