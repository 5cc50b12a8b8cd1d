// What `ebb verify` tries, finds and says. It runs in this order: a plan, the run that all are compared with, then each
// promise (verify_promises.cpp), and the verdict.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/verify_run.hpp"

namespace ebb::app {

enum class Verdict { holds, up_to_rounding, does_not_apply, fails };

struct Promise {
  std::string id, what;
  Verdict verdict = Verdict::holds;
  std::string why = {};
  double difference = 0, bound = 0;  // of what is equal up to rounding
};

struct Trial {
  std::string what;
  VerifyAnswer answer;
};

struct Verify {
  ConfigFlags flags;
  std::int64_t steps = 0;
  std::vector<int> processes = {};  // worlds to try
  bool json = false;
  double spoil =
      0;  // for tests: the split run, and those of several processes, are wrong by this share

  // The machine has the memory for runs without a budget; else they take what there is.
  bool roomy = true;
  std::deque<Trial> trials = {};  // answers stay where they are
  std::vector<Promise> promises = {};
  VerifyAnswer whole = {};

  void run();

  VerifyTask task(std::vector<std::string> more) const;
  const VerifyAnswer& tried(const std::string& what, const VerifyTask& t);
  // What is to run without a budget runs in all there is where the machine has no memory for that: no broken promise.
  VerifyAnswer attempt(VerifyTask t);
  const VerifyAnswer& noted(const std::string& what, VerifyAnswer answer);
  std::uint64_t asked() const;  // the budget that --memory names, in bytes; 0: none
  VerifyAnswer plan_of(const std::string& budget);
  void begin(const VerifyAnswer& plan) const;

  // verify_promises.cpp
  void compare(const std::string& id, const std::string& what, const VerifyAnswer& a);
  void in_budget(const VerifyAnswer& plan);
  void in_parts(const VerifyTask& free, const VerifyAnswer& plan);
  // Same bits where that can be, else the same gradient; does not apply where neither is.
  void divided(const Promise& promise, const std::string& run, VerifyTask t,
               const VerifyTask& free);
  Promise up_to_rounding(Promise p, const VerifyAnswer& after, VerifyTask parts,
                         VerifyTask whole_batch);
  void on_one_thread();
  void taken_up(const std::string& directory);
  void on_processes(int count, const VerifyTask& free, const VerifyAnswer& plan);

  void finish() const;
  std::string as_text(bool good) const;
  std::string as_json(bool good) const;
};

}  // namespace ebb::app
