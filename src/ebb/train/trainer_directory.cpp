// What a run writes, and how it is taken up again.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/timeline.hpp"
#include "ebb/train/build/fingerprint.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/first_bad.hpp"
#include "ebb/train/trainer_run.hpp"

namespace ebb::train {
namespace {

using Json = nlohmann::json;

// In a checkpoint's `extra`: what has to be the same goes by its name behind this, the rest by names of its own.
constexpr char kSame[] = "same ";
constexpr char kLoop[] = "loop";

Json to_json(const std::optional<Evaluation>& e) {
  if (!e) return nullptr;
  Json figures = Json::array();
  for (const Figure& f : e->figures) figures.push_back({f.name, f.value});
  return {{"step", e->step}, {"figures", figures}, {"best", e->best}};
}

// What is no number is null in JSON.
double number_in(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

std::optional<Evaluation> evaluation_in(const Json& json) {
  if (json.is_null()) return std::nullopt;
  Evaluation e{json.at("step").get<std::int64_t>(), {}, json.at("best").get<bool>()};
  for (const Json& f : json.at("figures"))
    e.figures.push_back({f.at(0).get<std::string>(), number_in(f.at(1))});
  return e;
}

// On one line, and not too long for an error.
std::string brief(const std::string& text) {
  constexpr std::size_t kLongest = 100;
  std::string line;
  for (const char c : text)
    if (c != '\n' && !(c == ' ' && line.ends_with(' '))) line += c;
  return line.size() <= kLongest ? line : line.substr(0, kLongest) + "…";
}

}  // namespace

// Nothing of the directory is read or changed before it is ours.
void Trainer::Run::claim() {
  if (options.directory.empty() || checkpoints) return;
  directory = RunDirectory::is_run(options.directory) ? RunDirectory::open(options.directory)
                                                      : RunDirectory::create(options.directory);
  Checkpoints all(directory->checkpoints(),
                  {.keep_last = options.keep_last,
                   .keep_best = options.keep_best,
                   .higher_is_better = higher_is_better(options.stopping.metric)});
  all.claim();
  checkpoints.emplace(std::move(all));
}

CheckpointParts Trainer::Run::parts() {
  CheckpointParts all;
  all.add(model);
  all.add(optimizer);
  if (ema) all.add(*ema);
  if (plateau) all.add(*plateau);
  return all;
}

void Trainer::Run::check_same(const CheckpointInfo& info) const {
  std::map<std::string, std::string> before;
  for (const auto& [name, text] : info.extra)
    if (name.starts_with(kSame)) before[name.substr(sizeof kSame - 1)] = text;
  std::vector<std::string> differ;
  for (const auto& [name, text] : options.same) {
    const auto found = before.find(name);
    if (found == before.end())
      differ.push_back(fmt::format("{} is {} now, and was not set", name, brief(text)));
    else if (found->second != text)
      differ.push_back(
          fmt::format("{} is {} now, and was {}", name, brief(text), brief(found->second)));
  }
  for (const auto& [name, text] : before)
    if (!options.same.contains(name))
      differ.push_back(fmt::format("{} is not set now, and was {}", name, brief(text)));
  if (differ.empty()) return;
  throw Error(
      fmt::format("{}: the run there was begun otherwise: {}{}; go on with what it was begun with, "
                  "or begin a new run in "
                  "another directory",
                  options.directory, differ[0],
                  differ.size() > 1
                      ? fmt::format(" ({} more differ, such as: {})", differ.size() - 1, differ[1])
                      : ""));
}

// From the last checkpoint, where there is one.
data::Position Trainer::Run::load_last() {
  data::Position at;
  std::string path;
  by_first("a look for checkpoints", [&] {
    const auto found = checkpoints ? checkpoints->latest() : std::nullopt;
    if (!found) return;
    check_same(found->info);
    path = found->path;
  });
  if (ranks) path = ranks->gather(path).front();  // all read that of the first
  from_checkpoint = !path.empty();
  if (from_checkpoint) {
    CheckpointInfo info;
    if (ranks) {  // a directory of that name may be another one on each host
      std::string seen;
      together(ranks, "a checkpoint", [&] { seen = fingerprint(path + "/" + kManifestName); });
      ranks->check_same("checkpoint " + path, seen);
    }
    together(ranks, "a checkpoint", [&] {
      try {
        info = load_parts(path, parts());
      } catch (const FileError& e) {
        throw FileError(e.what() + (checkpoints ? checkpoints->way_on(path) : ""));
      }
    });
    done = saved_at = info.step;
    best_value = info.best;
    at = data::Position::parse(info.position);
    const auto loop = info.extra.find(kLoop);
    if (loop != info.extra.end()) try {
        const Json state = Json::parse(loop->second);
        without_progress = state.at("without_progress").get<std::int64_t>();
        bad_in_a_row = state.at("bad_in_a_row").get<std::int64_t>();
        owed = state.at("owed").get<bool>();
        loss = number_in(state.value("loss", Json()));
        last = evaluation_in(state.at("last"));
        best = evaluation_in(state.at("best"));
      } catch (const Json::exception& e) {
        throw Error(fmt::format("{}: what it says of the loop cannot be read: {}", path, e.what()));
      }
  }
  open_logs(done);
  if (from_checkpoint)
    say(RunLog::Kind::resume, fmt::format("step {}: {}", done, path));
  else
    say(RunLog::Kind::start, fmt::format("{} steps, {} an epoch", total, per_epoch));
  return at;
}

void Trainer::Run::open_logs(std::int64_t from_step) {
  if (!directory) return;
  log.emplace(directory->log());
  metrics.emplace(directory->path(), MetricsLogOptions{.csv = options.csv,
                                                       .tensorboard = options.tensorboard,
                                                       .from_step = from_step});
  write_file(directory->plan_text(), to_string(shown));
  write_file(directory->plan_json(), shown.json());
}

std::string Trainer::Run::last_good() const {
  return saved_at < 0 ? "nothing was saved before"
                      : fmt::format("the last good checkpoint is that of step {}", saved_at);
}

void Trainer::Run::save(const data::Position& at) {
  if (options.directory.empty() || saved_at == done) return;
  const timeline::Slice slice("saving");
  std::string path;
  by_first("a save", [&] { path = write_checkpoint(at); });
  saved_at = done;
  if (!first) return;
  say(RunLog::Kind::save, fmt::format("step {}: {}", done, path));
  if (callbacks->on_save) callbacks->on_save(done, path);
}

std::string Trainer::Run::write_checkpoint(const data::Position& at) {
  // Each step had a finite gradient; what it makes of the weights may be too large all the same.
  if (const std::string bad = bad_variable(variables(model)); !bad.empty())
    throw NotFinite(
        fmt::format("step {}: it is not saved, as {}; {}: begin anew with a lower rate (train.lr)",
                    done, bad, last_good()));
  CheckpointInfo info{.step = done,
                      .epoch = at.epoch,
                      .position = to_string(at),
                      .metric = options.stopping.metric,
                      .best = best_value,
                      .extra = options.extra};
  if (last && last->step == done)
    for (const Figure& f : last->figures)
      if (f.name == options.stopping.metric) info.value = f.value;
  for (const auto& [name, text] : options.same) info.extra[kSame + name] = text;
  const Json state = {{"without_progress", without_progress},
                      {"bad_in_a_row", bad_in_a_row},
                      {"owed", owed},
                      {"loss", loss},
                      {"last", to_json(last)},
                      {"best", to_json(best)}};
  info.extra[kLoop] = state.dump();
  try {
    metrics->sync();
    return checkpoints->save_parts(info, parts());
  } catch (const FileError& e) {
    throw Error(fmt::format("step {} could not be saved, and training stops: {}; {}", done,
                            e.what(), last_good()));
  }
}

}  // namespace ebb::train
