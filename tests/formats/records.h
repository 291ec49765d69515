#pragma once

#include "formats/result_formats.h"
#include "mask/geometry.h"
#include "mask/support.h"

#include <filesystem>
#include <string>
#include <vector>

// Records to write and read back.
namespace sam3::test {

inline Segmentation::Instance instance(const std::string& label, int prompt, float score, int id, Mask mask) {
    const Box box = box_around(mask);
    Segmentation::Instance out;
    out.label = label;
    out.prompt = prompt;
    out.score = score;
    out.id = id;
    out.x0 = box.x0;
    out.y0 = box.y0;
    out.x1 = box.x1;
    out.y1 = box.y1;
    out.mask = std::move(mask);
    return out;
}

// A ring with a hole, an object in two parts, and one without anything in common with them.
inline Segmentation still(const std::string& file) {
    Segmentation record;
    record.file = file;
    record.width = 9;
    record.height = 6;
    record.prompts = {{"ring", 0.875F, {}}, {"two parts", 0.5F, {}}};
    record.instances.push_back(instance(
        "ring", 0, 0.75F, 0, draw({"####.....", "#..#.....", "#..#.....", "####.....", ".........", "........."})));
    record.instances.push_back(instance(
        "two parts", 1, 0.5F, 1, draw({".....##..", ".....##..", ".........", ".......##", ".......##", "........."})));
    return record;
}

// Objects that move to the right; the second one comes later.
inline std::vector<Segmentation> clip(const std::string& name, int frames) {
    std::vector<Segmentation> records;
    for (int frame = 0; frame < frames; ++frame) {
        Segmentation record;
        record.clip = name;
        record.frame = frame;
        record.width = 8;
        record.height = 5;
        Mask first(8, 5), second(8, 5);
        first.at(frame % 8, 0) = first.at(frame % 8, 1) = 1;
        second.at(frame % 8, 3) = second.at(frame % 8, 4) = 1;
        record.prompts = {{"red \"car\"", 1, {}}};
        record.instances.push_back(instance("red \"car\"", 0, 0.5F, 2, std::move(first)));
        if (frame > 0) {
            record.prompts.push_back({"dog", 1, {}});
            record.instances.push_back(instance("dog", 1, 0.25F, 5, std::move(second)));
        }
        records.push_back(std::move(record));
    }
    return records;
}

// An empty folder for one test, gone afterwards.
class Folder {
public:
    Folder() : path_((std::filesystem::temp_directory_path() / "sam3-formats-XXXXXX").string()) {
        if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no folder for the test");
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace sam3::test
