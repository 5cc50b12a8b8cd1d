// The text of the live line for a given width: what fits, in the order of what matters.
//
//   42% ━━━━━━━━──────────  1200/2860  epoch 1.3/3  loss 0.2314  accuracy 0.9720  lr 0.001  …
//
// Where it does not fit the bar shrinks first, then words become shorter, then fields go: the
// learning rate and the bar before others, the step last. A field keeps the width it once had, so that the
// line does not dance.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ebb::train {

struct LiveStatus {
  std::int64_t step = 0, steps = 0;  // done, of how many; 0: not known
  double epoch = 0, epochs = 0;      // likewise, with the part of the present one
  std::optional<double> loss = {};   // the others are left out where they are not set, too
  std::string_view metric = {};      // its name, such as "accuracy"
  double metric_value = 0;
  std::optional<double> lr = {};
  double rate = 0;  // a second; 0: not known
  std::string_view rate_of = "examples";
  std::uint64_t memory = 0;  // of the process, in bytes; LiveLine asks the system
  std::uint64_t budget = 0;  // 0: none
  std::optional<double> seconds_left = {};
  std::string_view activity = {};  // what is done between steps: "evaluating", "saving"
};

struct LiveStyle {
  bool color = false, unicode = false;
};

class LiveLayout {
 public:
  enum Field { kBar, kStep, kEpoch, kLoss, kMetric, kLr, kRate, kMemory, kLeft, kFields };

  // At most `columns` wide, without a line break.
  std::string text(const LiveStatus& status, int columns, LiveStyle style);

  // Everything in words, for files and pipes.
  static std::string plain(const LiveStatus& status);

 private:
  struct Shape {
    int bar = 0;  // cells
    bool percent = true;
    int gap = 2;
    std::array<bool, kFields> is_short{}, gone{};
  };
  int width(const Shape& shape) const;
  Shape fitted(int columns, bool has_bar) const;
  void measure(const LiveStatus& status);

  int columns_ = 0;
  struct Texts {
    std::string full, brief;
    std::size_t full_width = 0, brief_width = 0;  // the most so far
  };
  std::array<Texts, kFields> fields_;
};

// How many columns a text takes: one for each character. And its first so many.
std::size_t columns_of(std::string_view text);
std::string first_columns(std::string_view text, std::size_t columns);
// Control characters, which could move the cursor, as "?".
std::string printable(std::string_view text);

}  // namespace ebb::train
