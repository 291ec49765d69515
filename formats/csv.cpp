#include "formats/format_rows.h"
#include "util/atomic_file.h"
#include "util/error.h"

// A table for spreadsheets: RFC 4180, a line an object.
namespace sam3 {

namespace {

std::string csv_field(const std::string& text) {
    if (text.find_first_of("\",\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + "\"";
}

class CsvWriter : public DatasetWriter {
public:
    explicit CsvWriter(const std::string& path) : file_(path) {
        file_.write("file,clip,frame,width,height,id,label,score,x0,y0,x1,y1,area\n");
    }
    void add(const Segmentation& record) override {
        const std::string frame = record.frame < 0 ? "" : std::to_string(record.frame);
        const std::string picture = csv_field(record.file) + "," + csv_field(record.clip) + "," +
                                    str(frame, ",", record.width, ",", record.height, ",");
        for (size_t i = 0; i < record.instances.size(); ++i) {
            const Segmentation::Instance& o = record.instances[i];
            file_.write(picture + str(instance_id(record, i), ",", csv_field(o.label), ",", o.score, ",", o.x0, ",",
                                      o.y0, ",", o.x1, ",", o.y1, ",", mask_area(o.mask), "\n"));
        }
    }
    void finish() override { file_.finish(); }

private:
    AtomicFile file_;
};

}  // namespace

std::unique_ptr<DatasetWriter> csv_writer(const std::string& path, const WriteOptions&) {
    return std::make_unique<CsvWriter>(path);
}

}  // namespace sam3
