// A program as the list of what is done, one after the other: calls that run, buffers that are written to
// the spill file or read back, and waits for those transfers.
//
// Every pointer is in place, but for those that differ from step to step; of these each patch says where
// it belongs. Nothing is allocated when it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebb/exec/addresses.hpp"
#include "ebb/exec/call_times.hpp"
#include "ebb/exec/rank_chain.hpp"
#include "ebb/exec/resident_variables.hpp"
#include "ebb/exec/spill/spilled_variables.hpp"
#include "ebb/exec/spill/streamed_update.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::exec {

struct Action {
  enum class Kind : std::uint8_t { run, write, read, wait, take, give } kind;
  bool updates = false;  // a variable in memory
  std::uint32_t index;   // run: into calls; take, give: which sum; else into transfers
};

struct Actions {
  struct Call {
    const ops::OpType* type;
    const void* op;
    std::uint32_t first_in, ins, first_out, outs;  // of those below
    std::byte* scratch;
    std::size_t scratch_bytes;
    plan::Id call;  // of the trace
    Scope::Id scope;
    plan::Id stream = plan::kNone;  // where it is a streamed update
  };
  struct Transfer {
    int slot;
    std::byte* data;
    std::uint64_t bytes;
    SpillFile::Ticket ticket;
  };
  // An argument of a call that is found at each step: byte `offset` of input, variable or result `index`.
  struct Patch {
    bool output;
    std::uint32_t place;  // in ins or outs
    plan::Id index;
    std::uint64_t offset;
  };

  std::vector<Action> list;
  std::vector<Call> calls;
  std::vector<StreamedUpdate> streams;
  std::vector<Transfer> transfers;
  std::vector<ops::In> ins;
  std::vector<ops::Out> outs;
  std::vector<Patch> inputs;     // by the trace's inputs
  std::vector<Patch> variables;  // by the resident ones
  std::vector<Patch> results;    // by the trace's results: those that are written where they go

  void patch(const Patch& p, std::byte* data) {
    if (p.output)
      outs[p.place].data = data + p.offset;
    else
      ins[p.place].data = data + p.offset;
  }
  ops::Ins ins_of(const Call& c) const { return {ins.data() + c.first_in, c.ins}; }
  ops::Outs outs_of(const Call& c) const { return {outs.data() + c.first_out, c.outs}; }

  // `file`: null where nothing is spilled; `times`: null where it is not timed. `updated` becomes true
  // before the first call that changes a variable in memory: from there on a failure leaves a mixture. `chain`:
  // where the step is divided among ranks.
  void run(SpillFile* file, CallSeconds* times, bool& updated, RankChain* chain = nullptr);
};

// `addresses` is walked to the end of the schedule. `spilled`: null where nothing is. `chained`: its sums come
// from the rank before, and go to the next.
Actions make_actions(const plan::Program& program, Addresses& addresses,
                     const SpilledVariables* spilled, const ResidentVariables& resident,
                     bool chained = false);

}  // namespace ebb::exec
