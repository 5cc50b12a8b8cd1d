#include "ebb/train/run/run_directory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/files/file_calls.hpp"
#include "ebb/base/files/folder.hpp"

namespace ebb::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "ebb run, format 1\n";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw FileError(fmt::format("cannot use \"{}\" for a run: {}", path, why));
}

void check_path(const std::string& path) {
  if (path.empty()) refuse(path, "the name is empty; name a directory");
  if (path.find('\0') != std::string::npos) refuse(path.c_str(), "the name has a zero byte in it");
}

// The name of something that lies there; "" where nothing does.
std::string something_in(const std::string& path) {
  std::error_code error;
  const fs::directory_iterator found(path, error);
  if (error) refuse(path, fmt::format("{}; check its permissions", error.message()));
  return found == fs::directory_iterator() ? "" : found->path().filename().string();
}

// With a config, a run without one is none yet: a process was killed while it made it.
bool is_half_made(const std::string& path, std::string_view config) {
  return !config.empty() && names_in(path) == std::vector<std::string>{run_names::kMark};
}

void check_unused(const std::string& path, std::string_view config) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) refuse(path, "there is a file of that name; name a directory");
  if (RunDirectory::is_run(path) && is_half_made(path, config)) return;
  if (RunDirectory::is_run(path))
    refuse(path,
           "it holds a run already; go on with that one (ebb resume), or name another directory");
  const std::string inside = something_in(path);
  if (!inside.empty())
    refuse(path,
           fmt::format("it is not empty and not a run (it holds \"{}\"); name a new or an empty "
                       "directory",
                       inside));
}

// Into a directory that is there and empty. It may be a mount, or of one that may not be written, so that it cannot
// be put in place as a whole.
void fill(const std::string& place, std::string_view config) {
  const auto held = HeldFolder::take(place);
  if (!held) refuse(place, "another process is making a run there, or it cannot be read");
  check_unused(place, config);
  const std::string mark = place + "/" + run_names::kMark;
  try {
    write_file(mark, kFormat);
    if (!config.empty()) write_file(place + "/" + run_names::kConfig, config);
  } catch (const Error&) {
    remove_file(mark);
    throw;
  }
}

// Made beside its place and put there in one step: of two processes that start in one directory, one makes the run,
// as a directory that holds something is not replaced.
void put_in_place(const std::string& place, std::string_view config) {
  const std::string parent = file_calls::folder_of(place);
  make_directories(parent);
  const std::string half =
      fmt::format("{}/.{}.{}.new", parent, place.substr(place.rfind('/') + 1), ::getpid());
  remove_tree(half);  // of a process of that number that was killed here
  try {
    make_folder(half);
  } catch (const FileError& e) {  // of the name that the user knows
    const std::string_view what = e.what();
    const std::size_t reason = what.find("\": ");
    refuse(place, std::string(reason == what.npos ? what : what.substr(reason + 3)));
  }
  try {
    write_file(half + "/" + run_names::kMark, kFormat);
    if (!config.empty()) write_file(half + "/" + run_names::kConfig, config);
    move_path(half, place, "put in place");
  } catch (const Error&) {
    remove_tree(half);
    check_unused(place, {});  // another process may have been quicker
    throw;
  }
  sync_folder(parent, place);
}

}  // namespace

bool RunDirectory::is_run(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(fs::path(path) / run_names::kMark, ignored);
}

RunDirectory RunDirectory::create(const std::string& path, std::string_view config) {
  check_path(path);
  check_unused(path, config);
  std::string place = path;
  while (place.size() > 1 && place.ends_with('/')) place.pop_back();
  if (kind_of(place) == PathKind::folder) {
    fill(place, config);
  } else {
    put_in_place(place, config);
  }
  return RunDirectory(path);
}

RunDirectory RunDirectory::create_next(const std::string& path, std::string_view config) {
  return create(next_free(path), config);
}

void RunDirectory::check_free(const std::string& path) {
  check_path(path);
  if (!is_run(path) || !has_saved_nothing(path)) check_unused(path, {});
}

bool RunDirectory::has_saved_nothing(const std::string& path) {
  std::error_code ignored;
  for (const auto& entry :
       fs::directory_iterator(fs::path(path) / run_names::kCheckpoints, ignored))
    if (!entry.path().filename().string().starts_with('.'))
      return false;  // but for locks, leftovers
  return true;
}

RunDirectory RunDirectory::begin_anew(const std::string& path, std::string_view config) {
  RunDirectory run = open(path);
  if (!has_saved_nothing(path)) check_unused(path, {});  // somebody has just done so
  write_file(run.config(), config);
  return run;
}

std::string RunDirectory::next_free(const std::string& path) {
  check_path(path);
  std::string next = path;
  for (int number = 2; is_run(next); ++number) next = fmt::format("{}-{}", path, number);
  check_free(next);
  return next;
}

RunDirectory RunDirectory::open(const std::string& path) {
  check_path(path);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) refuse(path, "there is no such directory; check the name");
  if (!fs::is_directory(status)) refuse(path, "it is a file; name the directory of a run");
  if (!is_run(path))
    refuse(path,
           fmt::format("it is not the directory of a run (it has no {}); name one that training "
                       "has made",
                       run_names::kMark));
  const std::string found = read_file(path + "/" + run_names::kMark);
  // Empty where the process was killed just then: there is nothing else in it yet.
  if (!found.empty() && found != kFormat)
    refuse(path, fmt::format("its {} does not say \"{}\"; a newer Ebb has made it, use that one",
                             run_names::kMark, kFormat.substr(0, kFormat.size() - 1)));
  return RunDirectory(path);
}

}  // namespace ebb::train
