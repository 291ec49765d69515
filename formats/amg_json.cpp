#include "formats/amg.h"

#include <nlohmann/json.hpp>

namespace sam3 {

std::string to_amg_json(std::span<const AmgMask> masks) {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const AmgMask& mask : masks) {
        const Rle& rle = mask.segmentation;
        const PixelBox& box = mask.box;
        const PixelBox& crop = mask.crop_box;
        Json item;
        item["segmentation"] = {{"size", {rle.height, rle.width}}, {"counts", rle_to_string(rle)}};
        item["area"] = rle_area(rle);
        item["bbox"] = {box.x0, box.y0, box.x1 - 1 - box.x0, box.y1 - 1 - box.y0};
        item["predicted_iou"] = mask.predicted_iou;
        item["point_coords"] = Json::array({{mask.x, mask.y}});
        item["stability_score"] = mask.stability_score;
        item["crop_box"] = {crop.x0, crop.y0, crop.x1 - crop.x0, crop.y1 - crop.y0};
        list.push_back(std::move(item));
    }
    return list.dump(2) + "\n";
}

}  // namespace sam3
