// Ctrl-C and SIGTERM for a loop: the first one asks it to stop at the next step boundary, the second
// one ends the process at once. A Trainer also leaves a step that goes on for long (TrainerOptions::patience).
//
//   train::StopSignal stop;                      // handlers are in place while it lives
//   while (step < steps && !stop) train_step();
//   if (stop) { save(); return stop.exit_code(); }
//
// SIGHUP, which a closed terminal sends, asks too, and never ends the process: it may come twice. A
// signal that is ignored when this is made, as under nohup, stays ignored. The second SIGINT or
// SIGTERM ends the process as if there were no handler: a shell sees 130 or 143, and whoever waits
// for it sees the signal.
#pragma once

#include <csignal>

namespace ebb::train {

class StopSignal {
 public:
  StopSignal();   // an Error where there is one already: handlers belong to the whole process
  ~StopSignal();  // handlers as they were before
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  explicit operator bool() const { return requested(); }
  bool requested() const { return signal() != 0; }
  int signal() const;            // the first that came; 0: none
  const char* name() const;      // of that signal: "SIGINT"
  int exit_code() const;         // 128 + signal, as a shell gives it; 0: none came
  double seconds_since() const;  // since it came; 0: none came

  // Whether one has come, for those who are called by a loop and cannot see its StopSignal. False where there is none.
  static bool asked();

  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

 private:
  static constexpr int kCount = sizeof kSignals / sizeof kSignals[0];
  struct sigaction before_[kCount];
};

}  // namespace ebb::train
