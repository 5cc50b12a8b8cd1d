#include "ebb/train/run/append_file.hpp"

#include <algorithm>
#include <span>

#include "ebb/base/error.hpp"

namespace ebb::train {
namespace {

constexpr std::size_t kMostWaiting = 1 << 20;

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

AppendFile::AppendFile(const std::string& path, bool exclusive)
    : file_(
          File::open(path, {.access = Access::read_write, .create = true, .exclusive = exclusive})),
      end_(file_.size()) {}

AppendFile::~AppendFile() {
  try {
    if (file_.is_open()) flush();
  } catch (const Error&) {  // whoever must know calls flush()
  }
}

void AppendFile::add(std::string_view piece) {
  if (waiting_.size() + piece.size() > kMostWaiting) flush();
  waiting_ += piece;
}

void AppendFile::flush() {
  if (waiting_.empty()) return;
  try {
    file_.write_at(end_, std::as_bytes(std::span(waiting_)));
  } catch (const Error&) {
    try {
      file_.truncate(end_);
    } catch (const Error&) {  // then the next write goes over it
    }
    throw;
  }
  end_ += waiting_.size();
  waiting_.clear();
}

void AppendFile::sync() {
  flush();
  file_.sync();
}

void AppendFile::cut(std::uint64_t end) {
  if (end >= end_) return;
  file_.truncate(end);
  end_ = end;
}

void each_line(File& file, const std::function<bool(const LineSeen&)>& f) {
  char part[16384];
  std::string start;
  LineSeen line;
  file.seek(0);
  while (const std::size_t n = file.read_some(std::as_writable_bytes(std::span(part)))) {
    std::string_view rest(part, n);
    while (!rest.empty()) {
      const std::size_t newline = std::min(rest.find('\n'), rest.size());
      const std::string_view text = rest.substr(0, newline);
      start += text.substr(0, LineSeen::kStart - std::min(start.size(), LineSeen::kStart));
      if (!text.empty()) line.last = text.back();
      line.commas += static_cast<std::size_t>(std::ranges::count(text, ','));
      line.is_text = line.is_text && std::ranges::none_of(text, is_control);
      line.end += text.size();
      rest.remove_prefix(text.size());
      if (rest.empty()) break;
      rest.remove_prefix(1);
      line.start = start;
      ++line.end;
      if (!f(line)) return;
      line = {.start = {}, .end = line.end};
      start.clear();
    }
  }
}

}  // namespace ebb::train
