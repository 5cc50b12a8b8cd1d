// A job of several processes of this test program, started as users start one; and its end.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace ebb::test {

// Why jobs cannot be run here; "": they can.
std::string no_jobs();

struct JobOptions {
  int ranks = 3;
  std::vector<std::string> program = {};      // none: this one, in the role
  std::vector<std::string> mpirun = {};       // more words for it
  std::vector<std::string> before = {};       // words before mpirun: where it runs
  std::vector<std::string> environment = {};  // NAME=value for all ranks
  bool by_script = false;                     // the launcher starts a shell, and that the rank
};

// Runs `dist_tests rank ROLE DIRECTORY …` as ranks, or another program.
class Job {
 public:
  Job(const std::string& role, const JobOptions& options = {});
  explicit Job(const JobOptions& options) : Job("", options) {}
  ~Job();  // whatever still runs of it is killed
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  bool up(double most_seconds = 40);  // all ranks of a role are at work
  bool ended() { return launcher_ended(); }
  void order(const std::string& what, int rank);  // "throw": the rank does so at its next step
  pid_t process(int rank) const;                  // 0: there is none
  pid_t launcher() const { return pid_; }

  // Until the launcher has ended and no process of the job is left, whoever has started it; false after so many
  // seconds.
  bool over(double most_seconds);
  std::vector<pid_t> left() const;
  int code() const { return code_; }  // 128 + n: by signal n
  std::string out() const;
  std::string err() const;
  std::vector<std::string> lines() const;  // those of stderr that begin with "ebb: "

 private:
  bool launcher_ended();

  int ranks_;
  std::string folder_, program_;
  mutable std::set<pid_t> others_;  // processes that are not of the job
  pid_t pid_ = 0;
  int code_ = -1;
  bool reaped_ = false;
};

double seconds();  // of a clock that never goes back

}  // namespace ebb::test
