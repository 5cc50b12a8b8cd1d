#include "ebb/train/checkpoint/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/base/files/folder.hpp"
#include "ebb/train/checkpoint/checkpoint_write.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/checkpoint/staged_directory.hpp"

namespace ebb::train {
namespace {

std::string name_of(std::int64_t step) { return fmt::format("step-{:08d}", step); }

// The step of "step-00001200"; none for any other name.
std::optional<std::int64_t> step_of(std::string_view name) {
  constexpr std::string_view kStep = "step-";
  if (!name.starts_with(kStep) || name.size() > kStep.size() + 18) return std::nullopt;
  std::int64_t step = 0;
  for (const char c : name.substr(kStep.size())) {
    if (c < '0' || c > '9') return std::nullopt;
    step = step * 10 + (c - '0');
  }
  if (name != name_of(step)) return std::nullopt;
  return step;
}

// After all others, also where one of them cannot be read now, or the clock was set back.
std::int64_t next_time(const std::vector<Checkpoint>& all) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::int64_t time = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  for (const Checkpoint& c : all) time = std::max(time, c.written + 1);
  return time;
}

}  // namespace

Checkpoints::Checkpoints(std::string directory, KeepOptions keep)
    : directory_(std::move(directory)), keep_(keep) {
  while (directory_.size() > 1 && directory_.ends_with('/')) directory_.pop_back();
  if (keep_.keep_last < 1 || keep_.keep_best < 0)
    throw Error(fmt::format(
        "checkpoints: the last {} and the best {} cannot be kept; keep at least the last 1",
        keep_.keep_last, keep_.keep_best));
}

void Checkpoints::claim() {
  if (lock_) return;
  make_directories(directory_);
  DirectoryLock lock(directory_);
  remove_leftovers(directory_, [](std::string_view name) { return step_of(name).has_value(); });
  lock_ = std::move(lock);
}

std::vector<Checkpoint> Checkpoints::list() const {
  std::vector<Checkpoint> all;
  if (kind_of(directory_) == PathKind::nothing) return all;
  for (const std::string& name : names_in(directory_)) {
    const std::optional<std::int64_t> step = step_of(name);
    if (!step) continue;
    Checkpoint c{.path = directory_ + "/" + name, .info = {.step = *step}};
    try {
      Manifest manifest = read_manifest(c.path);
      if (manifest.info.step != *step)
        throw FileError(
            fmt::format("cannot load \"{}\": it is one of step {}; give it back its name, {}",
                        c.path, manifest.info.step, name_of(manifest.info.step)));
      c.info = std::move(manifest.info);
      c.written = manifest.written;
    } catch (const FileError& e) {
      if (kind_of(c.path) == PathKind::nothing) continue;  // another process has just removed it
      c.damage = e.what();
    }
    all.push_back(std::move(c));
  }
  // Sorted by step now. A damaged one stays behind the good one before it.
  std::int64_t written = 0;
  for (Checkpoint& c : all) written = c.written = c.damage.empty() ? c.written : written;
  std::stable_sort(all.begin(), all.end(),
                   [](const Checkpoint& a, const Checkpoint& b) { return a.written < b.written; });
  return all;
}

std::optional<Checkpoint> Checkpoints::latest() const {
  std::vector<Checkpoint> all = list();
  if (all.empty()) return std::nullopt;
  if (!all.back().damage.empty()) throw FileError(all.back().damage + way_on(all.back().path));
  return std::move(all.back());
}

std::string Checkpoints::way_on(const std::string& damaged) const {
  std::vector<Checkpoint> others = list();
  std::erase_if(others,
                [&](const Checkpoint& c) { return c.path == damaged || !c.damage.empty(); });
  if (others.empty()) return "";
  return fmt::format(" (to go on from step {} instead, move {} elsewhere)", others.back().info.step,
                     damaged);
}

std::optional<Checkpoint> Checkpoints::latest_good(std::vector<std::string>* skipped) const {
  std::vector<Checkpoint> all = list();
  for (; !all.empty(); all.pop_back()) {
    std::string why = all.back().damage;
    if (why.empty()) try {
        verify(all.back().path);
        return std::move(all.back());
      } catch (const FileError& e) {
        why = e.what();
      }
    if (skipped) skipped->push_back(why);
  }
  return std::nullopt;
}

std::vector<Checkpoint> Checkpoints::by_value(std::vector<Checkpoint> all) const {
  std::erase_if(all, [](const Checkpoint& c) { return !c.damage.empty() || !c.info.value; });
  std::stable_sort(all.begin(), all.end(), [&](const Checkpoint& a, const Checkpoint& b) {
    return better(*a.info.value, *b.info.value);
  });
  return all;
}

std::optional<Checkpoint> Checkpoints::best() const {
  std::vector<Checkpoint> all = by_value(list());
  if (all.empty()) return std::nullopt;
  return std::move(all.front());
}

std::string Checkpoints::save_parts(CheckpointInfo info, const CheckpointParts& parts) {
  claim();
  if (info.value && !std::isfinite(*info.value)) info.value.reset();
  if (info.value && (!info.best || better(*info.value, *info.best))) info.best = info.value;
  const std::string path = directory_ + "/" + name_of(info.step);
  write_checkpoint(path, std::move(info), next_time(list()), parts);
  rotate(path);
  return path;
}

// What was just saved is whole, so there is always one.
void Checkpoints::rotate(const std::string& saved) const {
  std::vector<Checkpoint> good = list();
  std::erase_if(good, [](const Checkpoint& c) { return !c.damage.empty(); });
  std::vector<std::string> kept{saved};
  const auto keep = [&](const std::vector<Checkpoint>& all, int count) {
    for (std::size_t i = 0; i < all.size() && i < static_cast<std::size_t>(count); ++i)
      kept.push_back(all[i].path);
  };
  keep(by_value(good), keep_.keep_best);
  std::reverse(good.begin(), good.end());
  keep(good, keep_.keep_last);
  std::reverse(good.begin(), good.end());
  for (const Checkpoint& c : good)
    if (std::find(kept.begin(), kept.end(), c.path) == kept.end()) remove_directory(c.path);
}

}  // namespace ebb::train
