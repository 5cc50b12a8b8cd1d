#include "ebb/train/run/live_line.hpp"

#include <algorithm>
#include <limits>

#include "ebb/base/process.hpp"

namespace ebb::train {
namespace {

constexpr int kPatience = 1000;  // milliseconds, for what is written once
// The cursor waits at the beginning of the line. So where a window is made narrower, and the terminal
// breaks the line in two, it still stands at the first part, and all of it is erased.
constexpr std::string_view kErase = "\r\x1b[J";

}  // namespace

LiveLine::LiveLine(LiveLineOptions options)
    : terminal_(options.descriptor),
      period_(terminal_.can_redraw() ? kSecondsBetweenDraws : options.period),
      clock_(std::move(options.clock)),
      drawn_(-std::numeric_limits<double>::infinity()) {}

LiveLine::~LiveLine() { finish(); }

bool LiveLine::due() const { return !terminal_.gone() && clock_() - drawn_ >= period_; }

void LiveLine::draw(const LiveStatus& asked) {
  if (terminal_.gone()) return;
  drawn_ = clock_();
  LiveStatus status = asked;
  if (status.memory == 0) status.memory = process::resident();
  if (!terminal_.can_redraw()) {
    terminal_.write(LiveLayout::plain(status) + '\n');
    return;
  }
  if (!terminal_.in_foreground()) return;
  // The last column stays free: a character there makes some terminals go to the next line.
  const LiveStyle style{terminal_.has_color(), terminal_.has_unicode()};
  columns_ = terminal_.columns();
  line_ = layout_.text(status, columns_ - 1, style);
  terminal_.write(std::string(kErase) + line_ + '\r');
}

void LiveLine::note(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const bool is_drawn = !line_.empty();
  std::string out(is_drawn ? kErase : "");
  for (;;) {
    const std::size_t newline = std::min(text.find('\n'), text.size());
    out += printable(text.substr(0, newline));
    out += '\n';
    if (newline == text.size()) break;
    text.remove_prefix(newline + 1);
  }
  if (is_drawn && terminal_.columns() == columns_ && terminal_.in_foreground())
    out += line_ + '\r';
  else
    line_.clear();  // the next step draws it as it fits
  terminal_.write(out, kPatience);
}

void LiveLine::finish(const LiveStatus& status) {
  draw(status);
  finish();
}

void LiveLine::finish() {
  if (line_.empty()) return;
  terminal_.write("\n", kPatience);
  line_.clear();
}

}  // namespace ebb::train
