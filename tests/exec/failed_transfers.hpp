// Whichever transfer of a step fails, the step throws; all is then what it was, or the step says that
// it is torn and refuses to go on.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb::test {

// make() gives a trial: step(batch) runs eagerly, bytes() is all that steps change. compiled(trial) is
// its step with a spill file, of which the n-th write and the n-th read fail in turn.
void expect_no_mixture(std::initializer_list<std::uint64_t> failing, auto make, auto compiled,
                       auto batch) {
  using file_faults::Fault;
  using file_faults::Repeat;
  int whole = 0, torn = 0;
  for (const bool write : {true, false})
    for (const std::uint64_t nth : failing) {
      SCOPED_TRACE((write ? "write " : "read ") + std::to_string(nth));
      const Repeat repeat = nth % 2 ? Repeat::from_then_on : Repeat::once;
      auto run = make();
      std::optional made = compiled(run);
      auto& step = *made;
      step(batch(run, 0));
      const auto before = run.bytes();
      const file_faults::Guard guard;
      write ? file_faults::fail_write(nth, Fault::enospc, repeat)
            : file_faults::fail_read(nth, Fault::eio, repeat);
      try {
        step(batch(run, 1));
        file_faults::clear();
        continue;
      } catch (const FileError&) {
        file_faults::clear();
      }
      if (step.executor().torn()) {
        ++torn;
        EXPECT_THROW(step(batch(run, 1)), Error);
        continue;
      }
      ++whole;
      EXPECT_EQ(run.bytes(), before);
      step(batch(run, 1));  // goes on as if nothing had been
      made.reset();         // and its budget
      auto again = make();
      for (int i = 0; i < 2; ++i) {
        Tape tape;
        again.step(batch(again, i));
      }
      EXPECT_EQ(run.bytes(), again.bytes());
    }
  EXPECT_GT(whole, 0);
  EXPECT_GT(torn + whole, 6) << "the faults reached the spill file";
}

}  // namespace ebb::test
