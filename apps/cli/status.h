#pragma once

#include <string>

namespace sam3::cli {

// One line on stderr that says what is being done; only on a terminal, gone when the work is.
class Status {
public:
    explicit Status(bool quiet);
    Status(const Status&) = delete;
    Status& operator=(const Status&) = delete;
    ~Status() { clear(); }
    void show(const std::string& text);
    void clear();
    bool active() const { return active_; }

private:
    bool active_;
    bool shown_ = false;
};

}  // namespace sam3::cli
