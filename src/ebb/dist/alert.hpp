// The launcher's first sign that it ends the job. Before mpirun or Slurm ends ranks, it sends each a SIGCONT,
// and so far nothing else; SIGTERM and SIGKILL follow a second later. That second is enough to find and to say
// which rank was lost (watch.hpp).
//
// It counts where it comes from the process that has started this one, or that one, and so on. A SIGCONT of
// anybody else means what it always means. A handler that the program has is called, too. One in a
// process.
#pragma once

namespace ebb::dist {

class Alert {
 public:
  Alert();
  ~Alert();  // as it was before
  Alert(const Alert&) = delete;
  Alert& operator=(const Alert&) = delete;

  static bool taken();  // whether there was one since it was last asked
};

}  // namespace ebb::dist
