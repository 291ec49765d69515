#pragma once

#include "runtime/kernels.h"
#include "util/error.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// The fields of a configuration, read and written by one list of them: a function template that names every field takes
// either of the two classes below, which have the same members.
//
//     template <typename Section>
//     void fields(const Section& section, NeckConfig& neck) {
//         section.number("fpn_hidden_size", neck.hidden_size);
//     }
namespace sam3 {

using Json = nlohmann::json;

Activation activation_by_name(const std::string& name, const std::string& where);  // fails with the known names
const char* name_of(Activation activation);

// Reads one object of a configuration, with its dotted name, so that an error says which field of which file. A value
// is left alone where its key is absent or null.
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

    template <typename T>
    void number(const std::string& key, T& value) const {
        if (has(key)) value = to_number<T>(json_.at(key), key);
    }
    template <typename T>
    void list(const std::string& key, std::vector<T>& values) const {
        if (!has(key)) return;
        const Json& list = json_.at(key);
        if (!list.is_array() || list.size() > 1024) fail(path_, ": '", full(key), "' must be a list of numbers");
        values.clear();
        for (const Json& item : list) values.push_back(to_number<T>(item, key));
    }
    void flag(const std::string& key, bool& value) const {
        if (!has(key)) return;
        if (!json_.at(key).is_boolean())
            fail(path_, ": '", full(key), "' must be true or false, found ", json_.at(key).dump());
        value = json_.at(key).get<bool>();
    }
    void activation(const std::string& key, Activation& activation) const {
        if (has(key)) activation = activation_by_name(text(key), path_ + ": '" + full(key) + "'");
    }
    std::string text(const std::string& key) const {
        if (!has(key)) return "";
        return json_.at(key).is_string() ? json_.at(key).get<std::string>() : json_.at(key).dump();
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

// Writes what JsonSection reads. The object must outlive it.
class JsonWriter {
public:
    explicit JsonWriter(Json& json) : json_(json) {
        if (json_.is_null()) json_ = Json::object();
    }
    JsonWriter child(const std::string& key) const { return JsonWriter(json_[key]); }

    template <typename T>
    void number(const std::string& key, T value) const {
        json_[key] = value;
    }
    template <typename T>
    void list(const std::string& key, const std::vector<T>& values) const {
        json_[key] = values;
    }
    void flag(const std::string& key, bool value) const { json_[key] = value; }
    void activation(const std::string& key, Activation activation) const { json_[key] = name_of(activation); }

private:
    Json& json_;
};

}  // namespace sam3
