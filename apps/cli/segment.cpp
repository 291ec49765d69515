#include "command.h"
#include "format_names.h"
#include "segment_job.h"

namespace sam3::cli {
namespace {

bool holds_stills(const FormatInfo& info) { return info.writes() && info.stills; }

std::string format_list() {
    return "Result files, separated by commas: " + format_names(holds_stills, ", ") +
           ", none (docs/formats.md; default: json,overlay with --output, else an overlay beside the picture)";
}

void add_inputs(CLI::App& command, SegmentOptions& options) {
    command
        .add_option("-i,--image,INPUT", options.inputs,
                    "JPEG, PNG or WebP files, folders, patterns in quotes, camera:/dev/video0, or - for paths (or a "
                    "picture) on stdin")
        ->group("Inputs");
    command.add_flag("-r,--recursive", options.recursive, "Take folders with their sub-folders")->group("Inputs");
    command
        .add_option("--prompts", options.prompts_file,
                    "JSON Lines file with a picture and its prompts a line (docs/cli.md); - for stdin")
        ->type_name("FILE")
        ->group("Inputs");
    command
        .add_option("--shard", options.shard,
                    "Work on the I-th of N parts; auto: as Slurm, Kubernetes or MPI say; `sam3 merge` joins them")
        ->type_name("I/N")
        ->group("Inputs");
}

void add_outputs(CLI::App& command, SegmentOptions& options) {
    const auto group = "Results";
    command.add_option("-o,--output", options.output, "Folder for result files; made when missing")
        ->type_name("DIR")
        ->group(group);
    command.add_option("-f,--format", options.formats, format_list())
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("LIST:{" + format_names(holds_stills) + ",none}")
        ->group(group);
    command.add_flag("--polygons", options.write.polygons, "COCO: polygons instead of run lengths")->group(group);
    command
        .add_option("--tolerance", options.write.tolerance, "How many pixels a polygon may deviate from the outline")
        ->check(CLI::Range(0.0, 100.0))
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--truth", options.write.truth, "Ground truth whose ids COCO results must name (docs/formats.md)")
        ->type_name("FILE")
        ->group(group);
    command.add_flag("--overwrite", options.overwrite, "Replace results that are there")->group(group);
    command
        .add_flag("--resume", options.resume,
                  "Go on where an earlier run into the same folder stopped; failed inputs are tried again")
        ->group(group);
    command
        .add_option("--dump", options.dump, "Write every named intermediate as .npy into this folder (docs/parity.md)")
        ->type_name("DIR")
        ->group(group);
    command.add_flag("-n,--dry-run", options.dry_run, "Say what would be done, and do nothing")->group(group);
    command.add_flag("--show", options.show, "Open the overlay with the desktop's viewer")->group(group);
    command
        .add_option("--preview", options.preview,
                    "Show the overlay in the terminal: auto, none, or as kitty, iterm or sixel graphics")
        ->check(CLI::IsMember({"auto", "none", "kitty", "iterm", "sixel"}))
        ->capture_default_str()
        ->group(group);
    command.add_flag("--json", options.json, "Print what happens as lines of JSON, for programs")->group(group);
    command.add_flag("-q,--quiet", options.quiet, "No table, no progress")->group(group);
}

}  // namespace

void add_segment(CLI::App& program, Action& chosen) {
    auto options = std::make_shared<SegmentOptions>();
    CLI::App* command = program.add_subcommand("segment", "Find and outline objects in images");
    add_inputs(*command, *options);
    options->prompts.add_to(*command);
    add_outputs(*command, *options);
    options->model.add_to(*command);
    command->footer(
        "Examples:\n"
        "  sam3 segment -m sam3 photo.jpg -t \"red car\" -t wheel      # writes photo_overlay.png, prints a table\n"
        "  sam3 segment -m sam3 photo.jpg --exemplar 120,80,260,190 -f json | jq .detections[].score\n"
        "  sam3 segment -m sam3 photo.jpg --point 210,130 --neg-point 40,40 --object --box 300,80,420,200 -o out -f "
        "png\n"
        "  sam3 segment -m sam3 photo.jpg -t wheel --point 210,130    # find, then correct by a click\n"
        "  sam3 segment -m sam3 photos -r -t dog -o out -f coco,csv   # a folder; Ctrl-C, then --resume goes on\n"
        "  find . -name '*.jpg' -print0 | sam3 segment -m sam3 - -t dog -o out -f jsonl\n"
        "  sam3 segment -m sam3 photos -t dog -o out --shard 2/8      # one of eight machines\n"
        "Pictures that fail are named, skipped and make the exit code 1.");
    command->callback([options, &chosen] {
        chosen = [options] {
            SegmentJob job(*options);
            options->dry_run ? job.describe() : job.run();
        };
    });
}

}  // namespace sam3::cli
