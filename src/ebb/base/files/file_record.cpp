#include "ebb/base/files/file_record.hpp"

#include <map>
#include <mutex>

#include "ebb/base/error.hpp"

namespace ebb::file_record {
namespace {

struct Log {
  std::mutex lock;
  std::vector<Operation> operations;
  std::map<int, std::string> open;  // by descriptor
};

Log& log() {
  static Log all;
  return all;
}

void note(Operation operation) {
  if (!on()) return;
  std::lock_guard lock(log().lock);
  log().operations.push_back(std::move(operation));
}

void note_file(int descriptor, Operation operation) {
  if (!on()) return;
  std::lock_guard lock(log().lock);
  const auto file = log().open.find(descriptor);
  if (file == log().open.end()) return;
  operation.path = file->second;
  log().operations.push_back(std::move(operation));
}

}  // namespace

Recording::Recording() {
  if (flag().exchange(true)) throw Error("file record: one recording at a time");
}

Recording::~Recording() {
  flag().store(false);
  std::lock_guard lock(log().lock);
  log().operations.clear();
  log().open.clear();
}

std::vector<Operation> Recording::operations() const {
  std::lock_guard lock(log().lock);
  return log().operations;
}

void opened(int descriptor, const std::string& path, bool created, bool emptied) {
  if (!on()) return;
  {
    std::lock_guard lock(log().lock);
    log().open[descriptor] = path;
  }
  if (created) note({Kind::create, path});
  if (!created && emptied) note({Kind::resize, path});
}

void closed(int descriptor) noexcept {
  if (!on()) return;
  std::lock_guard lock(log().lock);
  log().open.erase(descriptor);
}

void wrote(int descriptor, std::uint64_t at, std::span<const std::byte> bytes) {
  if (on()) note_file(descriptor, {Kind::write, {}, {}, at, {bytes.begin(), bytes.end()}});
}
void resized(int descriptor, std::uint64_t size) {
  note_file(descriptor, {Kind::resize, {}, {}, size});
}
void synced(int descriptor) { note_file(descriptor, {Kind::sync, {}}); }
void made_folder(const std::string& path) { note({Kind::make_folder, path}); }
void moved(const std::string& from, const std::string& to) { note({Kind::move, from, to}); }
void exchanged(const std::string& a, const std::string& b) { note({Kind::exchange, a, b}); }
void removed(const std::string& path) { note({Kind::remove, path}); }
void synced_folder(const std::string& path) { note({Kind::sync_folder, path}); }

}  // namespace ebb::file_record
