#pragma once

#include "formats/result_formats.h"

// What the rows of the table in result_formats.cpp point at; each is defined in the file of its format.
namespace sam3 {

using ItemFiles = std::vector<OutputFile>;

ItemFiles json_item(const Segmentation&, const std::string& stem, const Image*, const WriteOptions&);
ItemFiles png_item(const Segmentation&, const std::string& stem, const Image*, const WriteOptions&);
ItemFiles overlay_item(const Segmentation&, const std::string& stem, const Image*, const WriteOptions&);
ItemFiles overlay_jpeg_item(const Segmentation&, const std::string& stem, const Image*, const WriteOptions&);
ItemFiles cutout_item(const Segmentation&, const std::string& stem, const Image*, const WriteOptions&);
ItemFiles matte_item(const Segmentation&, const std::string& stem, const Image*, const WriteOptions&);

std::unique_ptr<DatasetWriter> jsonl_writer(const std::string& path, const WriteOptions&);
std::unique_ptr<DatasetWriter> csv_writer(const std::string& path, const WriteOptions&);

std::unique_ptr<RecordReader> json_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> jsonl_reader(const std::string& path, const ReadOptions&);

}  // namespace sam3
