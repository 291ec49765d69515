#pragma once

#include "tests/weights/files.h"
#include "weights/weight_file.h"

#include <map>
#include <sstream>

// Names and shapes of whole models, which lie in tests/data/weights as lists.
namespace sam3::test {

// "0-2,5" -> 0, 1, 2, 5
inline std::vector<int> numbers_in(const std::string& ranges) {
    std::vector<int> numbers;
    std::istringstream stream(ranges);
    for (std::string range; std::getline(stream, range, ',');) {
        const size_t dash = range.find('-');
        const int first = std::stoi(range), last = dash == range.npos ? first : std::stoi(range.substr(dash + 1));
        for (int i = first; i <= last; ++i) numbers.push_back(i);
    }
    return numbers;
}

// Lines of a name list; "{0-31}" stands for each number, "{}" further on for the same one.
inline std::vector<std::string> read_list(const std::string& name) {
    std::ifstream file(std::string(SAM3_TEST_DATA) + "/weights/" + name);
    EXPECT_TRUE(file.good()) << name;
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        const size_t open = line.find('{'), close = line.find('}');
        if (open == line.npos) {
            lines.push_back(line);
            continue;
        }
        for (int number : numbers_in(line.substr(open + 1, close - open - 1))) {
            std::string one = line.substr(0, open) + std::to_string(number) + line.substr(close + 1);
            if (const size_t again = one.find("{}"); again != one.npos) one.replace(again, 2, std::to_string(number));
            lines.push_back(one);
        }
    }
    return lines;
}

inline std::map<std::string, Shape> read_shapes(const std::string& name) {
    std::map<std::string, Shape> shapes;
    for (const std::string& line : read_list(name)) {
        const size_t space = line.find(' ');
        Shape shape;
        std::istringstream stream(line.substr(space + 2));
        for (std::string number; std::getline(stream, number, ',');) shape.push_back(std::stoll(number));
        shapes[line.substr(0, space)] = shape;
    }
    return shapes;
}

inline std::shared_ptr<const WeightFile> file_with(const std::map<std::string, Shape>& shapes) {
    WeightFileContents contents;
    contents.path = "sam3";
    for (const auto& [name, shape] : shapes)
        contents.tensors.push_back({name, WeightType::f32, shape, nullptr, 0, "F32"});
    return std::make_shared<WeightFile>(std::move(contents));
}

}  // namespace sam3::test
