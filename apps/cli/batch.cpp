#include "batch.h"

#include "interrupt.h"
#include "ordered_queue.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

namespace sam3::cli {

namespace {

// What waits between two stages: enough to keep the network busy, little enough for pictures of 100 megapixels.
constexpr size_t kMostItems = 8;
constexpr size_t kMostBytes = size_t{512} << 20;

size_t bytes_of(const Finished& item) {
    size_t bytes = item.image.pixels.size() + item.record.size();
    for (const Segmentation::Instance& instance : item.segmentation.instances) {
        bytes += instance.mask.data.size();
        for (const Segmentation::Candidate& candidate : instance.candidates) bytes += candidate.mask.data.size();
    }
    return bytes;
}

// Runs `work`; what it throws becomes the sentence of the input.
template <typename Work>
void attempt(Finished& item, const Work& work) {
    if (!item.error.empty()) return;
    try {
        work();
    } catch (const std::bad_alloc&) {
        item.error = item.input->name + ": there is not enough memory for this picture";
    } catch (const std::exception& error) {
        const std::string text = error.what();
        // Sentences about files name them already.
        item.error = text.find(item.input->name) == std::string::npos ? item.input->name + ": " + text : text;
    }
}

class Pipeline {
public:
    explicit Pipeline(const Batch& batch) : batch_(batch) {}

    size_t run(int helpers) {
        std::vector<std::thread> threads;
        const auto start = [&](auto stage) {
            threads.emplace_back([this, stage] { guard([&] { (this->*stage)(); }); });
        };
        for (int i = 0; i < helpers; ++i) {
            start(&Pipeline::decode);
            start(&Pipeline::encode);
        }
        start(&Pipeline::commit);
        guard([&] { segment(); });
        for (std::thread& thread : threads) thread.join();
        if (failure_) std::rethrow_exception(failure_);
        return committed_;
    }

private:
    // A failure of a stage is the end of all.
    template <typename Work>
    void guard(const Work& work) {
        try {
            work();
        } catch (...) {
            {
                const std::lock_guard lock(failure_mutex_);
                if (!failure_) failure_ = std::current_exception();
            }
            decoded_.stop();
            found_.stop();
            written_.stop();
        }
    }

    void decode() {
        for (size_t i = next_++; i < batch_.inputs.size(); i = next_++) {
            Finished item{.input = &batch_.inputs[i]};
            attempt(item, [&] { item.image = read_input(*item.input); });
            const size_t bytes = bytes_of(item);
            if (!decoded_.put(i, std::move(item), bytes)) return;
        }
    }

    // The one thread that drives the network.
    void segment() {
        size_t count = 0;
        for (; count < batch_.inputs.size() && !interrupted(); ++count) {
            std::optional<Finished> item = decoded_.take();
            if (!item) return;
            attempt(*item, [&] {
                item->segmentation = segment_image(batch_.session, item->image, batch_.tasks.at(item->input->task));
                item->segmentation.file = item->input->name;
            });
            const size_t bytes = bytes_of(*item);
            if (!found_.put(count, std::move(*item), bytes)) return;
        }
        decoded_.stop();
        found_.end_at(count);
        written_.end_at(count);
    }

    void encode() {
        while (true) {
            size_t number = 0;
            std::optional<Finished> item = found_.take(&number);
            if (!item) return;
            std::vector<OutputFile> files;
            attempt(*item, [&] {
                // Timings differ from run to run, and results must not.
                const auto seconds = std::exchange(item->segmentation.seconds, {});
                files = batch_.outputs.encode(item->segmentation, item->input->stem, item->image);
                item->record = to_json_line(item->segmentation);
                item->segmentation.seconds = seconds;
            });
            if (item->error.empty()) item->files = batch_.outputs.write(files);
            const size_t bytes = bytes_of(*item);
            if (!written_.put(number, std::move(*item), bytes)) return;
        }
    }

    void commit() {
        while (const std::optional<Finished> item = written_.take()) {
            if (batch_.journal != nullptr && item->error.empty())
                batch_.journal->add_done(item->input->name, item->input->stem, item->files, item->record);
            else if (batch_.journal != nullptr)
                batch_.journal->add_error(item->input->name, item->error);
            batch_.on_finished(*item);
            ++committed_;
        }
        if (batch_.journal != nullptr) batch_.journal->sync();
    }

    const Batch& batch_;
    std::atomic<size_t> next_ = 0;
    OrderedQueue<Finished> decoded_{kMostItems, kMostBytes}, found_{kMostItems, kMostBytes},
        written_{kMostItems, kMostBytes};
    size_t committed_ = 0;
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
};

}  // namespace

size_t run_batch(const Batch& batch) {
    // Reading and writing take a small part of the network's time, so that few threads keep up with many.
    const auto helpers = std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 4, 1, 8);
    return Pipeline(batch).run(helpers);
}

}  // namespace sam3::cli
