// sam3.h - Segment Anything in C++: images in, instances out.
//
//     sam3_params params;
//     params.model_path = "sam3.gguf";                       // or sam3.pt, a .safetensors file, a Hugging Face folder
//     auto model = sam3_load_model(params);
//     if (!model) { std::fprintf(stderr, "%s\n", sam3_last_error()); return 1; }
//     auto state = sam3_create_state(*model, params);
//     sam3_encode_image(*state, *model, sam3_load_image("photo.jpg"));
//     sam3_pcs_params prompt;
//     prompt.text_prompt = "red car";
//     for (const sam3_detection& d : sam3_segment_pcs(*state, *model, prompt).detections)
//         std::printf("%.2f  %.0f,%.0f - %.0f,%.0f\n", d.score, d.box.x0, d.box.y0, d.box.x1, d.box.y1);
//
// Ownership: everything is returned by value or by smart pointer; nothing has to be freed by hand.
// Threads: a model may be shared by any number of threads; a state belongs to one thread at a time.
// Failure: no function throws. Functions that can fail return null, false or an empty result, and sam3_last_error()
// then says in a sentence what went wrong (per thread; empty after a call that succeeded).
// The header is valid C++14 and names no third-party type.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#if defined(_WIN32)
#define SAM3_API
#else
#define SAM3_API __attribute__((visibility("default")))
#endif

struct sam3_model;    // weights and tokenizer; immutable
struct sam3_state;    // one image (or batch of images) and the buffers to work on it
struct sam3_tracker;  // what is remembered of one video

// Pixel coordinates: x to the right, y down, (0, 0) is the top left corner of the top left pixel.
struct sam3_point {
    float x;
    float y;
};

struct sam3_box {
    float x0;  // left
    float y0;  // top
    float x1;  // right
    float y1;  // bottom
};

// 8-bit samples, interleaved, rows from top to bottom without padding.
struct sam3_image {
    int width = 0;
    int height = 0;
    int channels = 3;  // 3: RGB; 1 (grey) and 4 (RGBA, alpha ignored) are accepted too
    std::vector<uint8_t> data;
};

struct sam3_mask {
    int width = 0;
    int height = 0;
    float iou_score = 0.0f;     // predicted quality of the mask
    float obj_score = 0.0f;     // how sure the model is that the object is there
    int instance_id = -1;       // unique within a result; in video, within the session
    std::vector<uint8_t> data;  // 0 or 255, of the image's size
};

struct sam3_detection {
    sam3_box box{0, 0, 0, 0};
    float score = 0.0f;      // confidence: presence of the concept times the match of this instance
    float iou_score = 0.0f;  // predicted quality of the mask; equal to score where a model predicts none
    int instance_id = -1;
    sam3_mask mask;
    std::string label;  // in video: the phrase it was found by; empty for objects that were pointed at
};

// What was found on one image with one prompt, best first; in video, on one frame, by ascending instance_id.
struct sam3_result {
    std::vector<sam3_detection> detections;
    int frame_index = -1;         // in video: the frame, counted from 0; -1: no frame is finished yet
    float presence_score = 0.0f;  // probability that the concept is in the image at all
    sam3_mask semantic;           // union of everything that matches; empty unless asked for
};

struct sam3_params {
    std::string model_path;  // a Hugging Face folder, .pt, .safetensors, .gguf or .ggml file, by content
    int n_threads = 4;       // CPU threads; never changes a result
    bool use_gpu = true;    // use a GPU where this build and the machine have one; false: the CPU, whatever device says
    int seed = 42;          // kept for compatibility; nothing here is random
    std::string behaviour;  // "official" or "hf": whose post-processing to follow; empty: the model's own
    int image_size = 0;     // side in pixels that images are scaled to; 0: the model's own
    std::string precision;  // of large products: "f32", "bf16", "int8", "fp8"; empty: f32, or int8 for a model stored
                            // so, on a GPU bf16
    std::string device;     // "cpu", "cuda" or "cuda:1"; empty: the first GPU that can be used, else the CPU
};

// Promptable concept segmentation: find every instance of a concept.
struct sam3_pcs_params {
    std::string text_prompt;              // noun phrase, e.g. "red car"; may be empty when there are exemplars
    std::vector<sam3_box> pos_exemplars;  // boxes around instances of the concept
    std::vector<sam3_box> neg_exemplars;  // boxes around what it is not
    float score_threshold = 0.5f;         // detections with a higher score are returned
    float nms_threshold = 0.1f;           // mask IoU above which the weaker of two goes; 1 or more: keep all
    std::vector<sam3_point> pos_points;   // points on instances (models whose file has the point weights)
    std::vector<sam3_point> neg_points;
    int max_detections = 0;  // keep only the best so many; 0: all
    bool semantic = false;   // also fill sam3_result::semantic
    int image_index = 0;     // which image of sam3_encode_images
};

// Promptable visual segmentation: the one object that is pointed at.
struct sam3_pvs_params {
    std::vector<sam3_point> pos_points;  // on the object
    std::vector<sam3_point> neg_points;  // not on it
    sam3_box box{0, 0, 0, 0};            // around it; counts only with use_box
    bool use_box = false;
    bool multimask = false;  // return the three candidate masks, best first, instead of one
    int image_index = 0;     // which image of sam3_encode_images
};

struct SAM3_API sam3_state_deleter {
    void operator()(sam3_state* state) const;
};
using sam3_state_ptr = std::unique_ptr<sam3_state, sam3_state_deleter>;

// "0.1.0"
SAM3_API const char* sam3_version();

// Why the last call in this thread failed; "" if it did not. Valid until the next call in this thread.
SAM3_API const char* sam3_last_error();

// Reads a model. Null on failure; the error lists everything that is missing or mis-shaped at once.
SAM3_API std::shared_ptr<sam3_model> sam3_load_model(const sam3_params& params);

// A workspace for one thread. The model must outlive it (hold its shared_ptr). Null on failure.
SAM3_API sam3_state_ptr sam3_create_state(const sam3_model& model, const sam3_params& params);

// Runs the image encoder; every prompt that follows reuses its result.
SAM3_API bool sam3_encode_image(sam3_state& state, const sam3_model& model, const sam3_image& image);

// The same for several images in one batch; prompts choose one by image_index.
SAM3_API bool sam3_encode_images(sam3_state& state, const sam3_model& model, const std::vector<sam3_image>& images);

// Finds all instances of a concept on an encoded image.
SAM3_API sam3_result sam3_segment_pcs(sam3_state& state, const sam3_model& model, const sam3_pcs_params& params);

// Several prompts in one batch, which share the image encoding; one result per prompt. Empty on failure.
SAM3_API std::vector<sam3_result> sam3_segment_pcs_batch(sam3_state& state, const sam3_model& model,
                                                         const std::vector<sam3_pcs_params>& prompts);

// Outlines one object that clicks or a box point at; one detection, or three with multimask.
SAM3_API sam3_result sam3_segment_pvs(sam3_state& state, const sam3_model& model, const sam3_pvs_params& params);

// Whether the model answers clicks and boxes only: no text, no exemplars.
SAM3_API bool sam3_is_visual_only(const sam3_model& model);

// --- Video -----------------------------------------------------------------------------------------------------------
//
//     sam3_video_params params;
//     params.text_prompt = "person";
//     auto tracker = sam3_create_tracker(*model, params);
//     for (int i = 0; i < info.n_frames; ++i)
//         show(sam3_track_frame(*tracker, *state, *model, sam3_decode_video_frame("clip.mp4", i)));
//
// A tracker belongs to one thread at a time, like the state it works with. What it remembers is bounded: memory does
// not grow with the number of frames.

// Finds a concept in a video and follows its instances. The rules are those of SAM 3's reference; the defaults are its
// defaults.
struct sam3_video_params {
    std::string text_prompt;
    float score_threshold = 0.5f;      // detections with a higher score count
    float nms_threshold = 0.1f;        // mask overlap above which the weaker of two detections goes
    float assoc_iou_threshold = 0.1f;  // overlap from which a detection belongs to a known instance
    int hotstart_delay = 15;           // frames in which an instance must prove itself
    int max_keep_alive = 30;           // bound of the count of frames an instance survives unmatched
    int recondition_every = 16;        // frames between two renewals of the memory by a sure detection; 0: never
    int fill_hole_area = 16;           // holes and specks up to this size are cleaned; 0: none
    std::vector<std::string> more_text_prompts;  // further concepts, followed in the same pass
    float new_instance_threshold = 0.7f;         // score from which an unmatched detection becomes an instance
    float track_iou_threshold = 0.5f;            // overlap below which an instance counts as unmatched
    float occlusion_iou_threshold = 0.7f;        // of two that overlap more, the one hidden more recently gives way
    int max_instances = 10000;
    // true: results come hotstart_delay frames late, without the instances that turned out to be mistakes.
    // false: each frame's result at once.
    bool delayed = false;
};

// Follows objects that are pointed at; works with every model that has memory, visual-only ones included. The first
// three are kept for compatibility and have no effect: there are no detections to match.
struct sam3_visual_track_params {
    float assoc_iou_threshold = 0.1f;
    int max_keep_alive = 30;
    int recondition_every = 16;
    int fill_hole_area = 16;       // holes and specks up to this size, at the mask's own resolution, are cleaned
    bool non_overlapping = false;  // a pixel that several objects claim goes to the surest of them
    int history = 16;              // frames of memory kept for corrections of the past
};

struct SAM3_API sam3_tracker_deleter {
    void operator()(sam3_tracker* tracker) const;
};
using sam3_tracker_ptr = std::unique_ptr<sam3_tracker, sam3_tracker_deleter>;

// The model must outlive the tracker. Null on failure.
SAM3_API sam3_tracker_ptr sam3_create_tracker(const sam3_model& model, const sam3_video_params& params);
SAM3_API sam3_tracker_ptr sam3_create_visual_tracker(const sam3_model& model, const sam3_visual_track_params& params);

// The next frame of a video with a concept: detects, follows, remembers. All frames have one size. With
// params.delayed the result is that of an earlier frame, or has frame_index -1 while none is finished.
SAM3_API sam3_result sam3_track_frame(sam3_tracker& tracker, sam3_state& state, const sam3_model& model,
                                      const sam3_image& frame);
// At the end of a video with params.delayed: the frames that were still waiting.
SAM3_API std::vector<sam3_result> sam3_tracker_finish(sam3_tracker& tracker);

// From the next frame on, also looks for this concept, or no longer: its instances go too.
SAM3_API bool sam3_tracker_add_text(sam3_tracker& tracker, const std::string& text_prompt);
SAM3_API bool sam3_tracker_remove_text(sam3_tracker& tracker, const std::string& text_prompt);

// Points at an object on the current frame: that of the last sam3_propagate_frame, or the image that the state has
// encoded when there was none. Returns its instance_id, -1 on failure.
SAM3_API int sam3_tracker_add_instance(sam3_tracker& tracker, sam3_state& state, const sam3_model& model,
                                       const sam3_pvs_params& prompt);
// The next frame of a video with objects that were pointed at: the current one plus 1.
SAM3_API sam3_result sam3_propagate_frame(sam3_tracker& tracker, sam3_state& state, const sam3_model& model,
                                          const sam3_image& frame);
// As above, but on any frame; reverse: the video is followed backwards, memories come from later frames.
SAM3_API sam3_result sam3_propagate_to(sam3_tracker& tracker, sam3_state& state, const sam3_model& model,
                                       const sam3_image& frame, int frame_index, bool reverse);

// Corrects an instance by clicks on the current frame; later frames follow the correction.
SAM3_API bool sam3_refine_instance(sam3_tracker& tracker, sam3_state& state, const sam3_model& model, int instance_id,
                                   const std::vector<sam3_point>& pos_points,
                                   const std::vector<sam3_point>& neg_points);
SAM3_API bool sam3_tracker_remove_instance(sam3_tracker& tracker, int instance_id);

// The current frame, counted from 0; -1 before the first.
SAM3_API int sam3_tracker_frame_index(const sam3_tracker& tracker);
// Forgets everything but the parameters.
SAM3_API void sam3_tracker_reset(sam3_tracker& tracker);

// What the tracker knows, as a file; a tracker with the same parameters and model goes on from it exactly.
SAM3_API bool sam3_tracker_save(const sam3_tracker& tracker, const std::string& path);
SAM3_API bool sam3_tracker_restore(sam3_tracker& tracker, sam3_state& state, const std::string& path);

struct sam3_video_info {
    int width = 0;  // 0 on failure
    int height = 0;
    int n_frames = 0;
    float fps = 0.0f;
};

// A video file, or a folder of images.
SAM3_API sam3_video_info sam3_get_video_info(const std::string& video_path);
// One frame as RGB, width 0 on failure. The file stays open for the next call of this thread, which then decodes from
// where it is or from the key frame before, never from the start.
SAM3_API sam3_image sam3_decode_video_frame(const std::string& video_path, int frame_index);

// Drop a model or a state early. Not needed: the smart pointers do it.
SAM3_API void sam3_free_model(sam3_model& model);
SAM3_API void sam3_free_state(sam3_state& state);

// Reads a JPEG (its orientation applied), PNG or WebP file as RGB. Width 0 on failure.
SAM3_API sam3_image sam3_load_image(const std::string& path);

// Writes the mask as an 8-bit grey PNG, whole or not at all.
SAM3_API bool sam3_save_mask(const sam3_mask& mask, const std::string& path);
