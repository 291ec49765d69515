#pragma once

#include "media/video_reader.h"

// One function a kind of source, for open_frames().
namespace sam3 {

std::unique_ptr<FrameSource> open_video_file(const std::string& path);
std::unique_ptr<FrameSource> open_frame_folder(const std::string& path, const FrameOptions& options);
std::unique_ptr<FrameSource> open_camera(const std::string& path, const FrameOptions& options);
std::unique_ptr<FrameSource> open_frame_pipe(const FrameOptions& options);

}  // namespace sam3
