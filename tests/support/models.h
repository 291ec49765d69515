#pragma once

#include "engine/model.h"
#include "support/device.h"

#include <memory>

namespace sam3::test {

// On the device of the tests (support/device.h), in f32 unless the options say otherwise.
inline std::shared_ptr<const Model> load_model(LoadOptions options) {
    options.device = device_name();
    if (options.precision == "auto") options.precision = "f32";
    return Model::load(options);
}

}  // namespace sam3::test
