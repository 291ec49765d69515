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
ItemFiles labelme_item(const Segmentation&, const std::string& stem, const Image*, const WriteOptions&);
ItemFiles davis_item(const Segmentation&, const std::string& stem, const Image*, const WriteOptions&);
ItemFiles ids_item(const Segmentation&, const std::string& stem, const Image*, const WriteOptions&);

std::unique_ptr<DatasetWriter> jsonl_writer(const std::string& path, const WriteOptions&);
std::unique_ptr<DatasetWriter> tracks_writer(const std::string& path, const WriteOptions&);
std::unique_ptr<DatasetWriter> coco_writer(const std::string& path, const WriteOptions&);
std::unique_ptr<DatasetWriter> coco_results_writer(const std::string& path, const WriteOptions&);
std::unique_ptr<DatasetWriter> yolo_writer(const std::string& path, const WriteOptions&);
std::unique_ptr<DatasetWriter> mots_writer(const std::string& path, const WriteOptions&);
std::unique_ptr<DatasetWriter> ytvis_writer(const std::string& path, const WriteOptions&);
std::unique_ptr<DatasetWriter> veval_writer(const std::string& path, const WriteOptions&);
std::unique_ptr<DatasetWriter> csv_writer(const std::string& path, const WriteOptions&);

std::unique_ptr<RecordReader> json_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> jsonl_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> coco_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> coco_results_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> yolo_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> labelme_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> png_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> davis_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> ids_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> mots_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> ytvis_reader(const std::string& path, const ReadOptions&);
std::unique_ptr<RecordReader> veval_reader(const std::string& path, const ReadOptions&);

}  // namespace sam3
