// One line that shows how a run goes, while it goes.
//
//   train::LiveLine line;
//   …
//   line.step([&] { return train::LiveStatus{.step = step, .steps = steps, .loss = loss}; });
//   line.note("step 1200: saved");                    // a line of its own, above
//   line.finish();
//
// On a terminal it is drawn over and over, at most ten times a second; the status is asked for only
// then, so that a step costs a look at the clock. It fits the window's width, at any moment. Where
// the cursor cannot be moved (a file, a pipe, TERM=dumb) a plain line is written every `period`
// seconds instead. Whatever happens to the stream, training goes on (terminal.hpp). For one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "ebb/train/run/clock.hpp"
#include "ebb/train/run/live_layout.hpp"
#include "ebb/train/run/terminal.hpp"

namespace ebb::train {

struct LiveLineOptions {
  int descriptor = 2;  // stderr: what a program prints as its result goes to stdout
  double period = 10;  // seconds between plain lines
  Clock clock = steady_seconds;
};

class LiveLine {
 public:
  explicit LiveLine(LiveLineOptions options = {});
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  ~LiveLine();  // what is printed next starts on a line of its own

  template <class F>
  void step(F&& status) {
    if (due()) draw(std::forward<F>(status)());
  }
  bool due() const;
  void draw(const LiveStatus& status);    // now: before something that takes long, such as a save
  void note(std::string_view text);       // of one line or several
  void finish(const LiveStatus& status);  // the last one, which stays
  void finish();                          // the same with what was drawn last

  static constexpr double kSecondsBetweenDraws = 0.1;

 private:
  Terminal terminal_;
  double period_;
  Clock clock_;
  LiveLayout layout_;
  double drawn_;      // when
  std::string line_;  // on the screen now; empty: none
  int columns_ = 0;   // of the window it was made for
};

}  // namespace ebb::train
