#include "ebb/train/run/timeline_file.hpp"

#include <fmt/format.h>

#include <cstring>
#include <exception>

#include "ebb/base/messages/transport.hpp"
#include "ebb/report/timeline_events.hpp"

namespace ebb::train {
namespace {

constexpr int kTag = kLargestTag;  // sums have those from 0 on
constexpr std::size_t kPiece = 64 << 10;

// Text on its way to the first rank: a piece, with its length before it; an empty one is the last.
struct Piece {
  memory::Buffer memory{kPiece, "timeline on its way", Category::workspace};
  std::size_t filled = 0;

  std::span<std::byte> all() const { return {memory.data(), memory.size()}; }
  char* text() const { return reinterpret_cast<char*>(memory.data() + sizeof(std::uint64_t)); }
  static constexpr std::size_t room() { return kPiece - sizeof(std::uint64_t); }
};

}  // namespace

TimelineFile::TimelineFile(const std::string& path, Ranks& ranks, const std::string& host)
    : ranks_(ranks), host_(ranks.size() > 1 ? host : "") {
  together(&ranks_, "the file of --trace", [&] {
    if (ranks_.rank() == 0) file_.emplace(path);
  });
  at_first_ = report::clock_offset(ranks_);
  recording_.emplace();
}

void TimelineFile::own(report::ChromeEvents& to) {
  const report::AlignedClock clock(at_first_, report::clock_offset(ranks_));
  report::write(*recording_, {.rank = ranks_.rank(), .host = host_, .time = clock}, to);
}

void TimelineFile::send() {
  Piece piece;
  const auto letter = ranks_.letter_to(0, kTag, piece.all());
  const auto post = [&] {
    const std::uint64_t bytes = piece.filled;
    std::memcpy(piece.memory.data(), &bytes, sizeof bytes);
    letter->start();
    letter->wait();
    piece.filled = 0;
  };
  report::ChromeEvents out([&](std::string_view text) {
    while (!text.empty()) {
      const std::size_t now = std::min(text.size(), Piece::room() - piece.filled);
      std::memcpy(piece.text() + piece.filled, text.data(), now);
      piece.filled += now;
      text.remove_prefix(now);
      if (piece.filled == Piece::room()) post();
    }
  });
  own(out);
  if (piece.filled > 0) post();
  post();
}

void TimelineFile::receive(int rank, const Text& to) {
  Piece piece;
  const auto letter = ranks_.letter_from(rank, kTag, piece.all());
  for (;;) {
    letter->start();
    letter->wait();
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, piece.memory.data(), sizeof bytes);
    if (bytes == 0) return;
    to({piece.text(), bytes});
  }
}

// Also where the first one's disk is full the others come to their end.
void TimelineFile::write() {
  recording_->stop();
  if (ranks_.rank() > 0) {
    send();
    return together(&ranks_, "the file of --trace", [] {});
  }
  std::exception_ptr failed;
  const Text write = [&](std::string_view text) {
    if (!failed) try {
        file_->file().write(text);
      } catch (...) {
        failed = std::current_exception();
      }
  };
  const std::uint64_t lost = recording_->work().lost();
  report::ChromeEvents out(write);
  out.begin(lost > 0 ? fmt::format(R"({{"earlier events that were not kept":{}}})", lost) : "");
  own(out);
  for (int r = 1; r < ranks_.size(); ++r) receive(r, write);
  out.end();
  together(&ranks_, "the file of --trace", [&] {
    if (failed) std::rethrow_exception(failed);
    file_->commit();
  });
}

}  // namespace ebb::train
