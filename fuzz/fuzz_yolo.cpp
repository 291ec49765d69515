#include "formats/yolo.h"
#include "record_readers.h"

// A label file of a picture of 16 x 12 pixels; the same bytes as a data.yaml.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace sam3;
    const std::map<int, std::string> names = parse_yolo_names({data, size});
    try {
        LineReader lines("labels.txt", std::string(data, data + size));
        fuzz::check_record(parse_yolo_labels(lines, 16, 12, names, fuzz::kMostMaskBytes));
    } catch (const Error&) {
    }
    return 0;
}
