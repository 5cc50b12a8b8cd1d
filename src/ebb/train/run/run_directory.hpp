// Where a run keeps what it makes.
//
//   config.toml       as resolved            metrics.jsonl, metrics.csv, events.out.tfevents.*
//   plan.txt, .json   before the first step  log.txt      what happened, with times
//   checkpoints/      to go on from          model/       the best or the last, to be used
//
// A directory is a run's if it holds the file .ebb-run, which is made first. Nothing is ever written
// into a directory that has files and not that one: it is somebody's, whatever they are called.
#pragma once

#include <string>
#include <string_view>

namespace ebb::train {

namespace run_names {
inline constexpr char kMark[] = ".ebb-run";
inline constexpr char kConfig[] = "config.toml";
inline constexpr char kPlanText[] = "plan.txt";
inline constexpr char kPlanJson[] = "plan.json";
inline constexpr char kMetricsJsonl[] = "metrics.jsonl";
inline constexpr char kMetricsCsv[] = "metrics.csv";
inline constexpr char kLog[] = "log.txt";
inline constexpr char kCheckpoints[] = "checkpoints";
inline constexpr char kModel[] = "model";
}  // namespace run_names

class RunDirectory {
 public:
  // A new run: the directory and those above it are made, or an empty one is taken. An Error says
  // what is in the way: a run, files of others, a file of that name, no permission, no room.
  //
  // With the text of a config, its file is there from the beginning: whatever ends the process, there is no
  // directory yet, or one that can be taken up.
  static RunDirectory create(const std::string& path, std::string_view config = {});
  // The same, or where a run is there already, path-2, path-3 and so on.
  static RunDirectory create_next(const std::string& path, std::string_view config = {});
  // What these two would use, or refuse; nothing is made. A run that has saved nothing, as it was killed or its
  // loss was no number before the first save, is free too: begin_anew takes it.
  static void check_free(const std::string& path);
  static std::string next_free(const std::string& path);
  // One that was made before.
  static RunDirectory open(const std::string& path);
  // One that has saved nothing, with another config. The caller holds its lock (Checkpoints::claim).
  static RunDirectory begin_anew(const std::string& path, std::string_view config);
  static bool has_saved_nothing(const std::string& path);
  static bool is_run(const std::string& path);

  const std::string& path() const { return path_; }
  std::string config() const { return file(run_names::kConfig); }
  std::string plan_text() const { return file(run_names::kPlanText); }
  std::string plan_json() const { return file(run_names::kPlanJson); }
  std::string metrics_jsonl() const { return file(run_names::kMetricsJsonl); }
  std::string metrics_csv() const { return file(run_names::kMetricsCsv); }
  std::string log() const { return file(run_names::kLog); }
  std::string checkpoints() const { return file(run_names::kCheckpoints); }
  std::string model() const { return file(run_names::kModel); }

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  std::string file(const char* name) const { return path_ + "/" + name; }

  std::string path_;  // as it was given
};

}  // namespace ebb::train
