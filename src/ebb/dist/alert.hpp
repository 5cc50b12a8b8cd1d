// The launcher's first sign that it ends the job. Before mpirun or Slurm ends ranks, it sends each a SIGCONT,
// and so far nothing else; SIGTERM and SIGKILL follow a second later. That second is enough to find and to say
// which rank was lost (watch.hpp).
//
// It counts where it comes from the process that has started this one, or that one, and so on. A SIGCONT of
// anybody else means what it always means. A handler that the program has is called, too. One in a
// process.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace ebb::dist {

class Alert {
 public:
  // `then` is called after each, by a thread of its own: it may wait.
  explicit Alert(std::function<void()> then);
  ~Alert();  // as it was before
  Alert(const Alert&) = delete;
  Alert& operator=(const Alert&) = delete;

  static bool taken();  // whether there was one since it was last asked

 private:
  void run();

  std::function<void()> then_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace ebb::dist
