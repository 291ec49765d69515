/* sam3_c.h - the C interface of sam3.h, for C programs and for bindings from other languages.
 *
 *     sam3_c_model* model = sam3_c_load_model("sam3.gguf", NULL);
 *     if (!model) { fprintf(stderr, "%s\n", sam3_c_last_error()); return 1; }
 *     sam3_c_session* session = sam3_c_create_session(model, 4);
 *     sam3_c_encode_rgb(session, pixels, width, height);
 *     sam3_c_result* result = sam3_c_segment_text(session, "red car", 0.5f);
 *     for (int i = 0; i < sam3_c_count(result); ++i) printf("%.2f\n", sam3_c_detection(result, i).score);
 *     sam3_c_free_result(result);
 *     sam3_c_free_session(session);
 *     sam3_c_free_model(model);
 *
 * Ownership: what a function creates is freed by its sam3_c_free_ function, which accepts NULL. A session keeps its
 * model alive and a tracker its session, so they may be freed in any order.
 * Threads: a model may be shared by any number of threads; a session and its trackers belong to one thread at a time.
 * Failure: NULL, 0 or -1 as each function says, and sam3_c_last_error() then says why.
 * Pictures: 8-bit RGB, rows from the top without padding; they are copied.
 * Only sam3.h has: batches of images and of prompts, points for concepts, the union of all matches.
 * The functions begin with sam3_c_, so that a program may include both headers. Valid C11. */
#ifndef SAM3_C_H
#define SAM3_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define SAM3_C_API
#else
#define SAM3_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sam3_c_model sam3_c_model;
typedef struct sam3_c_session sam3_c_session;
typedef struct sam3_c_result sam3_c_result;
typedef struct sam3_c_tracker sam3_c_tracker;
typedef struct sam3_c_picture sam3_c_picture;

/* Pixels of the image: x to the right, y down, (0, 0) is the top left corner of the top left pixel. */
typedef struct sam3_c_point {
    float x, y;
} sam3_c_point;

/* Left, top, right, bottom. */
typedef struct sam3_c_box {
    float x0, y0, x1, y1;
} sam3_c_box;

/* What points at one object: points, a box or both. All zero: nothing. */
typedef struct sam3_c_clicks {
    const sam3_c_point* points;
    const uint8_t* positive; /* 0 for a point that is not on the object; NULL: all are on it */
    size_t point_count;
    const sam3_c_box* box; /* around the object; NULL: none */
} sam3_c_clicks;

typedef struct sam3_c_instance {
    float score; /* confidence, 0 to 1 */
    sam3_c_box box;
    const uint8_t* mask; /* width * height bytes, 0 or 255, rows from the top; owned by the result */
    int width;
    int height;
    float object_score; /* how sure the model is that the object is there */
    int id;             /* unique within a result; in video, within the tracker */
    const char* label;  /* in video: the phrase it was found by, "" for what was pointed at; owned by the result */
} sam3_c_instance;

/* "0.1.0"; never NULL, never to be freed. */
SAM3_C_API const char* sam3_c_version(void);

/* Why the last call in this thread failed; "" if it did not. Valid until the next call in this thread. */
SAM3_C_API const char* sam3_c_last_error(void);

/* Reads a model; NULL on failure. behaviour: "official" or "hf", whose post-processing to follow; NULL: its own. */
SAM3_C_API sam3_c_model* sam3_c_load_model(const char* path, const char* behaviour);
/* The same on a device: "cpu", "cuda" or "cuda:1"; NULL: the first GPU that can be used, else the CPU. precision:
 * "f32", "bf16", "int8" or "fp8"; NULL: f32, or int8 for a model stored so, on a GPU bf16. */
SAM3_C_API sam3_c_model* sam3_c_load_model_on(const char* path, const char* behaviour, const char* device,
                                              const char* precision);
/* 1 when the model answers clicks and boxes only: no text, no exemplars. */
SAM3_C_API int sam3_c_is_visual_only(const sam3_c_model* model);
SAM3_C_API void sam3_c_free_model(sam3_c_model* model);

/* A workspace for one thread that uses so many CPU threads; NULL on failure. */
SAM3_C_API sam3_c_session* sam3_c_create_session(const sam3_c_model* model, int threads);
SAM3_C_API void sam3_c_free_session(sam3_c_session* session);

/* Runs the image encoder; every prompt that follows reuses its result. 1 when done. */
SAM3_C_API int sam3_c_encode_rgb(sam3_c_session* session, const uint8_t* rgb, int width, int height);

/* Finds every instance of a noun phrase with a score above the threshold. NULL on failure. */
SAM3_C_API sam3_c_result* sam3_c_segment_text(sam3_c_session* session, const char* text, float threshold);

/* The same with exemplar boxes. text may be NULL when there are boxes; positive[i] is 0 for a box around what the
 * concept is not, and NULL when every box shows the concept. */
SAM3_C_API sam3_c_result* sam3_c_segment_concept(sam3_c_session* session, const char* text, const sam3_c_box* boxes,
                                                 const uint8_t* positive, size_t box_count, float threshold);

/* Outlines the one object that is pointed at. candidates: 0 for the best mask, 1 for all three, best first. */
SAM3_C_API sam3_c_result* sam3_c_segment_clicks(sam3_c_session* session, const sam3_c_clicks* clicks, int candidates);

/* Instances, best first, in video by ascending id; an index outside [0, count) gives zeros. */
SAM3_C_API int sam3_c_count(const sam3_c_result* result);
SAM3_C_API sam3_c_instance sam3_c_detection(const sam3_c_result* result, int index);

/* Probability that the concept is in the image at all. */
SAM3_C_API float sam3_c_presence(const sam3_c_result* result);
/* In video: the frame, counted from 0; -1: no frame is finished yet. */
SAM3_C_API int sam3_c_frame(const sam3_c_result* result);
/* Writes an instance's mask as an 8-bit grey PNG, whole or not at all. 1 when done. */
SAM3_C_API int sam3_c_save_mask(const sam3_c_result* result, int index, const char* path);

SAM3_C_API void sam3_c_free_result(sam3_c_result* result);

/* --- Pictures and frames of videos -------------------------------------------------------------------------------- */

/* A JPEG (its orientation applied), PNG or WebP file as RGB; NULL on failure. */
SAM3_C_API sam3_c_picture* sam3_c_load_picture(const char* path);
/* One frame of a video file or of a folder of images; NULL on failure. The file stays open for the next call of this
 * thread, which then decodes from where it is or from the key frame before, never from the start. */
SAM3_C_API sam3_c_picture* sam3_c_load_frame(const char* video, int frame);
/* 0 and NULL for a picture that is NULL. The pixels are the picture's. */
SAM3_C_API int sam3_c_width(const sam3_c_picture* picture);
SAM3_C_API int sam3_c_height(const sam3_c_picture* picture);
SAM3_C_API const uint8_t* sam3_c_pixels(const sam3_c_picture* picture);
SAM3_C_API void sam3_c_free_picture(sam3_c_picture* picture);

typedef struct sam3_c_video {
    int width; /* 0 on failure */
    int height;
    int frames;
    float frames_per_second;
} sam3_c_video;
SAM3_C_API sam3_c_video sam3_c_video_info(const char* video);

/* --- Video ----------------------------------------------------------------------------------------------------------
 *
 *     const char* texts[] = {"person"};
 *     sam3_c_tracker* tracker = sam3_c_create_tracker(session, texts, 1, NULL);
 *     for (int i = 0; i < frames; ++i) {
 *         sam3_c_result* result = sam3_c_track_frame(tracker, pixels_of(i), width, height);
 *         ...
 *         sam3_c_free_result(result);
 *     }
 *     sam3_c_free_tracker(tracker);
 *
 * What a tracker remembers is bounded: memory does not grow with the number of frames. A session's trackers share its
 * image: one at a time is given frames. */

/* The rules of finding a concept and following its instances; what each means is said in sam3.h. */
typedef struct sam3_c_video_options {
    float score_threshold;
    float nms_threshold;
    float assoc_iou_threshold;
    int hotstart_delay;
    int max_keep_alive;
    int recondition_every;
    int fill_hole_area;
    float new_instance_threshold;
    float track_iou_threshold;
    float occlusion_iou_threshold;
    int max_instances;
    int delayed; /* 1: results come hotstart_delay frames late, without instances that turned out to be mistakes */
} sam3_c_video_options;

/* For objects that are pointed at. */
typedef struct sam3_c_visual_options {
    int fill_hole_area;  /* holes and specks up to this size are cleaned */
    int non_overlapping; /* 1: a pixel that several objects claim goes to the surest of them */
    int history;         /* frames of memory kept for corrections of the past */
} sam3_c_visual_options;

/* The reference's values, to be changed before a tracker is made. */
SAM3_C_API sam3_c_video_options sam3_c_default_video_options(void);
SAM3_C_API sam3_c_visual_options sam3_c_default_visual_options(void);

/* Finds noun phrases and follows their instances; NULL on failure. options may be NULL: the defaults. */
SAM3_C_API sam3_c_tracker* sam3_c_create_tracker(sam3_c_session* session, const char* const* texts, size_t text_count,
                                                 const sam3_c_video_options* options);
/* The next frame: detects, follows, remembers. All frames have one size. NULL on failure. */
SAM3_C_API sam3_c_result* sam3_c_track_frame(sam3_c_tracker* tracker, const uint8_t* rgb, int width, int height);
/* At the end of a video with `delayed`: the next of the frames that were still waiting. NULL when none is left, and on
 * failure, when sam3_c_last_error() is not "". */
SAM3_C_API sam3_c_result* sam3_c_track_rest(sam3_c_tracker* tracker);
/* From the next frame on, also looks for this concept, or no longer: its instances go too. 1 when done. */
SAM3_C_API int sam3_c_add_text(sam3_c_tracker* tracker, const char* text);
SAM3_C_API int sam3_c_remove_text(sam3_c_tracker* tracker, const char* text);

/* Follows objects that are pointed at; NULL on failure. options may be NULL: the defaults. */
SAM3_C_API sam3_c_tracker* sam3_c_create_visual_tracker(sam3_c_session* session, const sam3_c_visual_options* options);
/* Points at an object on the current frame: the last one that was propagated to, or the picture that the session has
 * encoded when there was none. Its id, -1 on failure. */
SAM3_C_API int sam3_c_add_instance(sam3_c_tracker* tracker, const sam3_c_clicks* clicks);
/* The next frame: the current one plus 1. NULL on failure. */
SAM3_C_API sam3_c_result* sam3_c_propagate_frame(sam3_c_tracker* tracker, const uint8_t* rgb, int width, int height);
/* Any frame. reverse: 1 when the video is followed backwards, memories come from later frames. */
SAM3_C_API sam3_c_result* sam3_c_propagate_to(sam3_c_tracker* tracker, const uint8_t* rgb, int width, int height,
                                              int frame, int reverse);

/* Corrects an instance by points on the current frame; later frames follow the correction. 1 when done. */
SAM3_C_API int sam3_c_refine_instance(sam3_c_tracker* tracker, int id, const sam3_c_clicks* clicks);
SAM3_C_API int sam3_c_remove_instance(sam3_c_tracker* tracker, int id);
/* The current frame, counted from 0; -1 before the first. */
SAM3_C_API int sam3_c_current_frame(const sam3_c_tracker* tracker);
/* Forgets everything but the options and phrases. */
SAM3_C_API void sam3_c_reset_tracker(sam3_c_tracker* tracker);
/* What the tracker knows, as a file; one with the same options and model goes on from it exactly. 1 when done. */
SAM3_C_API int sam3_c_save_tracker(const sam3_c_tracker* tracker, const char* path);
SAM3_C_API int sam3_c_restore_tracker(sam3_c_tracker* tracker, const char* path);
SAM3_C_API void sam3_c_free_tracker(sam3_c_tracker* tracker);

#ifdef __cplusplus
}
#endif

#endif
