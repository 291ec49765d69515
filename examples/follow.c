/* Follows what a phrase names through a video and prints a line for each instance on each frame.
 *
 *     cc -std=c11 follow.c $(pkg-config --cflags --libs sam3) -o follow
 *     ./follow sam3.gguf clip.mp4 "red square"
 */
#include <sam3_c.h>

#include <stdio.h>

static int failed(void) {
    fprintf(stderr, "follow: %s\n", sam3_c_last_error());
    return 1;
}

static void print(const sam3_c_result* result) {
    for (int i = 0; i < sam3_c_count(result); ++i) {
        const sam3_c_instance found = sam3_c_detection(result, i);
        printf("%d\t%d\t%s\t%.3f\t%.1f\t%.1f\t%.1f\t%.1f\n", sam3_c_frame(result), found.id, found.label, found.score,
               found.box.x0, found.box.y0, found.box.x1, found.box.y1);
    }
}

static int follow(sam3_c_tracker* tracker, const char* path, int frames) {
    printf("frame\tid\tphrase\tscore\tleft\ttop\tright\tbottom\n");
    for (int i = 0; i < frames; ++i) {
        sam3_c_picture* frame = sam3_c_load_frame(path, i);
        if (!frame) return failed();
        sam3_c_result* result =
            sam3_c_track_frame(tracker, sam3_c_pixels(frame), sam3_c_width(frame), sam3_c_height(frame));
        sam3_c_free_picture(frame);
        if (!result) return failed();
        print(result);
        sam3_c_free_result(result);
    }
    return 0;
}

int main(int argc, char** argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL VIDEO PHRASE\n", argv[0]);
        return 2;
    }
    const sam3_c_video video = sam3_c_video_info(argv[2]);
    if (video.width == 0) return failed();
    sam3_c_model* model = sam3_c_load_model(argv[1], NULL);
    if (!model) return failed();
    sam3_c_session* session = sam3_c_create_session(model, 4);
    const char* texts[] = {argv[3]};
    sam3_c_tracker* tracker = session ? sam3_c_create_tracker(session, texts, 1, NULL) : NULL;
    const int code = tracker ? follow(tracker, argv[2], video.frames) : failed();
    sam3_c_free_tracker(tracker);
    sam3_c_free_session(session);
    sam3_c_free_model(model);
    return code;
}
