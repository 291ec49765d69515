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
 * model alive, so the model may be freed first.
 * Threads: a model may be shared by any number of threads; a session belongs to one thread at a time.
 * Failure: NULL or 0, and sam3_c_last_error() says why.
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

/* Pixels of the image: left, top, right, bottom. */
typedef struct sam3_c_box {
    float x0, y0, x1, y1;
} sam3_c_box;

typedef struct sam3_c_instance {
    float score; /* confidence, 0 to 1 */
    sam3_c_box box;
    const uint8_t* mask; /* width * height bytes, 0 or 255, rows from the top; owned by the result */
    int width;
    int height;
} sam3_c_instance;

/* "0.1.0"; never NULL, never to be freed. */
SAM3_C_API const char* sam3_c_version(void);

/* Why the last call in this thread failed; "" if it did not. Valid until the next call in this thread. */
SAM3_C_API const char* sam3_c_last_error(void);

/* Reads a model. behaviour: "official" or "hf", whose post-processing to follow; NULL: the model's own. */
SAM3_C_API sam3_c_model* sam3_c_load_model(const char* path, const char* behaviour);
/* The same on a device: "cpu", "cuda" or "cuda:1"; NULL: the first GPU that can be used, else the CPU. precision:
 * "f32", "bf16", "int8" or "fp8"; NULL: f32, or int8 for a model stored so, on a GPU bf16. */
SAM3_C_API sam3_c_model* sam3_c_load_model_on(const char* path, const char* behaviour, const char* device,
                                              const char* precision);
SAM3_C_API void sam3_c_free_model(sam3_c_model* model);

/* A workspace for one thread that uses so many CPU threads. */
SAM3_C_API sam3_c_session* sam3_c_create_session(const sam3_c_model* model, int threads);
SAM3_C_API void sam3_c_free_session(sam3_c_session* session);

/* Runs the image encoder on 8-bit RGB, rows from the top without padding; the pixels are copied. 1 when done. */
SAM3_C_API int sam3_c_encode_rgb(sam3_c_session* session, const uint8_t* rgb, int width, int height);

/* Finds every instance of a noun phrase with a score above the threshold. */
SAM3_C_API sam3_c_result* sam3_c_segment_text(sam3_c_session* session, const char* text, float threshold);

/* The same with exemplar boxes. text may be NULL when there are boxes; positive[i] is 0 for a box around what the
 * concept is not, and NULL when every box shows the concept. */
SAM3_C_API sam3_c_result* sam3_c_segment_concept(sam3_c_session* session, const char* text, const sam3_c_box* boxes,
                                                 const uint8_t* positive, size_t box_count, float threshold);

/* Instances, best first; an index outside [0, count) gives zeros. */
SAM3_C_API int sam3_c_count(const sam3_c_result* result);
SAM3_C_API sam3_c_instance sam3_c_detection(const sam3_c_result* result, int index);

/* Probability that the concept is in the image at all. */
SAM3_C_API float sam3_c_presence(const sam3_c_result* result);

SAM3_C_API void sam3_c_free_result(sam3_c_result* result);

#ifdef __cplusplus
}
#endif

#endif
