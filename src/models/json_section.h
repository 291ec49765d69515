#pragma once

#include "runtime/kernels.h"
#include "util/error.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace sam3 {

using Json = nlohmann::json;

// One object of config.json with its dotted name, so that an error says which field of which file.
class JsonSection {
public:
    JsonSection(const Json& json, std::string name, const std::string& path)
        : json_(json), name_(std::move(name)), path_(path) {
        if (!json_.is_object()) fail(path_, ": expected an object at '", name_, "'");
    }
    JsonSection child(const std::string& key) const {
        if (!json_.contains(key)) fail(path_, ": the section '", full(key), "' is missing");
        return JsonSection(json_.at(key), full(key), path_);
    }
    bool has(const std::string& key) const { return json_.contains(key) && !json_.at(key).is_null(); }

    // Each read leaves the value alone when the key is absent or null.
    template <typename T>
    void read(const std::string& key, T& value) const {
        if (has(key)) value = to_number<T>(json_.at(key), key);
    }
    template <typename T>
    void read_list(const std::string& key, std::vector<T>& values) const {
        if (!has(key)) return;
        const Json& list = json_.at(key);
        if (!list.is_array() || list.size() > 1024) fail(path_, ": '", full(key), "' must be a list of numbers");
        values.clear();
        for (const Json& item : list) values.push_back(to_number<T>(item, key));
    }
    void read_flag(const std::string& key, bool& value) const {
        if (!has(key)) return;
        if (!json_.at(key).is_boolean())
            fail(path_, ": '", full(key), "' must be true or false, found ", json_.at(key).dump());
        value = json_.at(key).get<bool>();
    }
    std::string text(const std::string& key) const {
        if (!has(key)) return "";
        return json_.at(key).is_string() ? json_.at(key).get<std::string>() : json_.at(key).dump();
    }
    void read_activation(const std::string& key, Activation& activation) const {
        if (!has(key)) return;
        const std::string name = text(key);
        if (name == "gelu")
            activation = Activation::gelu;
        else if (name == "relu")
            activation = Activation::relu;
        else if (name == "gelu_new" || name == "gelu_pytorch_tanh")
            activation = Activation::gelu_tanh;
        else if (name == "silu")
            activation = Activation::silu;
        else
            fail(path_, ": '", full(key), "' is '", name, "'; known are gelu, relu, gelu_new and silu");
    }

private:
    std::string full(const std::string& key) const { return name_.empty() ? key : name_ + "." + key; }
    template <typename T>
    T to_number(const Json& value, const std::string& key) const {
        if (!value.is_number()) fail(path_, ": '", full(key), "' must be a number, found ", value.dump());
        const double number = value.get<double>();
        if (!(std::abs(number) < 1e9)) fail(path_, ": '", full(key), "' is out of range: ", value.dump());
        return static_cast<T>(number);
    }

    const Json& json_;
    std::string name_;
    const std::string& path_;
};

}  // namespace sam3
