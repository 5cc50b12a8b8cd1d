#include "ebb/train/checkpoint/staged_directory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file_calls.hpp"

namespace ebb::train {
namespace {

constexpr std::string_view kHalf = ".tmp", kReplaced = ".old";

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Beside `target`, a name that nobody has.
std::string beside(const std::string& target, std::string_view ending) {
  static std::atomic<unsigned> serial{0};
  for (;;) {
    std::string path = fmt::format("{}/.{}.{}-{}{}", file_calls::folder_of(target), name_of(target),
                                   ::getpid(), serial.fetch_add(1), ending);
    if (kind_of(path) == PathKind::nothing) return path;
  }
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "NAME" of ".NAME.4711-0.tmp" and the like; empty where it is none.
std::string_view target_of(std::string_view leftover, std::string_view ending) {
  if (!leftover.starts_with('.') || !leftover.ends_with(ending)) return {};
  leftover = leftover.substr(1, leftover.size() - 1 - ending.size());
  const auto dot = leftover.rfind('.');
  if (dot == leftover.npos) return {};
  const std::string_view numbers = leftover.substr(dot + 1);
  const auto dash = numbers.find('-');
  if (dash == numbers.npos || !all_digits(numbers.substr(0, dash)) ||
      !all_digits(numbers.substr(dash + 1)))
    return {};
  return leftover.substr(0, dot);
}

}  // namespace

StagedDirectory::StagedDirectory(std::string target)
    : target_(std::move(target)), path_(beside(target_, kHalf)) {
  make_folder(path_);
  held_ = HeldFolder::take(path_);
}

StagedDirectory::~StagedDirectory() {
  if (!ours_) return;
  try {
    remove_tree(path_);
  } catch (const Error&) {  // it stays behind, and is removed another time
  }
}

void StagedDirectory::commit() {
  const std::string parent = file_calls::folder_of(target_);
  sync_folder(path_);
  if (kind_of(target_) != PathKind::nothing) return replace();
  move_path(path_, target_, "put in place");
  ours_ = false;
  sync_folder(parent, target_);
}

void StagedDirectory::replace() {
  const std::string parent = file_calls::folder_of(target_);
  if (exchange_paths(path_, target_)) {
    ours_ = false;  // the old one, which is missed until the new one's name is on the disk
    sync_folder(parent, target_);
    remove_tree(path_);
    return;
  }
  const std::string old = beside(target_, kReplaced);
  move_path(target_, old);
  try {
    move_path(path_, target_, "put in place");
  } catch (const Error&) {
    move_path(old, target_);
    throw;
  }
  ours_ = false;
  sync_folder(parent, target_);
  remove_tree(old);
}

void remove_directory(const std::string& target) {
  const std::string aside = beside(target, kHalf);
  move_path(target, aside, "remove");
  sync_folder(file_calls::folder_of(target),
              target);  // else files may be gone and the name still there
  remove_tree(aside);
}

void remove_leftovers(const std::string& parent,
                      const std::function<bool(std::string_view name)>& ours) {
  bool synced = false;
  for (const std::string& name : names_in(parent)) {
    const std::string path = parent + "/" + name;
    const std::string_view half = target_of(name, kHalf), replaced = target_of(name, kReplaced);
    if (!(!half.empty() && ours(half)) && !(!replaced.empty() && ours(replaced))) continue;
    const std::optional<HeldFolder> held = HeldFolder::take(path);
    if (!held) continue;  // somebody is at it, or it is no directory
    // What took its place may be there in memory only.
    if (!synced) sync_folder(parent);
    synced = true;
    const std::string target = fmt::format("{}/{}", parent, replaced);
    if (!replaced.empty() && kind_of(target) == PathKind::nothing)
      move_path(path, target);
    else
      remove_tree(path);
  }
}

}  // namespace ebb::train
