#include "ebb/exec/actions.hpp"

#include <algorithm>

#include "ebb/base/timeline.hpp"
#include "ebb/exec/leave_steps.hpp"
#include "ebb/exec/sum_uses.hpp"

namespace ebb::exec {

using plan::Id;
using plan::kNone;
using Kind = Action::Kind;

namespace {

// Walks the schedule and adds the actions of each step.
class Builder {
 public:
  Builder(const plan::Program& program, Addresses& addresses, const SpilledVariables* spilled,
          const ResidentVariables& resident, bool chained)
      : program_(program),
        trace_(program.trace),
        lowered_(program.lowered),
        schedule_(program.schedule),
        addresses_(addresses),
        spilled_(spilled),
        resident_(resident),
        sums_(chained ? sum_uses(program) : std::vector<SumUses>(schedule_.steps.size())),
        reading_(schedule_.instances.size(), kNone),
        taken_(schedule_.instances.size()),
        wait_before_(schedule_.steps.size()),
        wait_after_(schedule_.steps.size()) {
    for (const plan::Instance& in : schedule_.instances)
      if (in.takes != kNone) taken_[in.takes] = true;
  }

  Actions build() {
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      for (const std::uint32_t transfer : wait_before_[i]) add(Kind::wait, transfer);
      if (schedule_.steps[i].kind == plan::Step::Kind::run)
        add_call(i);
      else
        add_transfer(i);
      for (const std::uint32_t transfer : wait_after_[i]) add(Kind::wait, transfer);
    }
    for (const Id transfer : reading_)  // what is wanted when the step is over
      if (transfer != kNone) add(Kind::wait, static_cast<std::uint32_t>(transfer));
    return std::move(made_);
  }

 private:
  void add(Kind kind, std::uint32_t index, bool updates = false) {
    made_.list.push_back({kind, updates, index});
  }

  // A buffer that is written stays as it is until that is done: it is waited for where its bytes end, or
  // before the step in which another takes them over. One that is read is waited for by its first reader.
  void add_transfer(std::size_t i) {
    const plan::Step& step = schedule_.steps[i];
    const bool write = step.kind == plan::Step::Kind::write;
    const Id instance = write ? step.in[0] : step.out[0];
    const Id buffer = schedule_.instances[instance].buffer;
    const std::uint64_t bytes = trace_.values[lowered_.value_of[buffer]].spec.bytes();
    const auto transfer = static_cast<std::uint32_t>(made_.transfers.size());
    made_.transfers.push_back({slot_of(buffer), addresses_.of(buffer, instance), bytes, {}});
    add(write ? Kind::write : Kind::read, transfer);
    if (!write) {
      reading_[instance] = static_cast<Id>(transfer);
      addresses_.set_instance(buffer, instance);
      return;
    }
    const auto last = static_cast<std::size_t>(schedule_.instances[instance].last);
    if (taken_[instance] && last > i)
      wait_before_[last].push_back(transfer);
    else
      wait_after_[std::max(last, i)].push_back(transfer);
  }

  int slot_of(Id buffer) const {
    if (lowered_.graph.buffers[buffer].origin != plan::Origin::state)
      return spilled_->activation_slot(static_cast<int>(program_.first_slot) + buffer);
    return spilled_->slot_of(trace_.variables[trace_.values[lowered_.value_of[buffer]].index]);
  }

  void add_call(std::size_t i) {
    const plan::Step& step = schedule_.steps[i];
    const plan::Node& node = lowered_.graph.nodes[step.node];
    wait_for_reads(step.in);
    wait_for_reads(step.updates);
    set_instances(node.in, step.in);
    set_instances(node.updates, step.updates);
    const trace::Call& call = trace_.calls[lowered_.call[step.node]];
    Actions::Call c{&call.op.type(),
                    call.op.attributes(),
                    static_cast<std::uint32_t>(made_.ins.size()),
                    static_cast<std::uint32_t>(call.in.size()),
                    static_cast<std::uint32_t>(made_.outs.size()),
                    static_cast<std::uint32_t>(call.out.size()),
                    addresses_.scratch(i),
                    step.scratch,
                    lowered_.call[step.node],
                    call.scope};
    for (const Id value : call.in) add_input(value);
    set_instances(node.out, step.out);
    bool updates = false;
    for (const Id value : call.out) updates |= add_output(value);
    add_stream(c, step.node, call);
    for (const Id sum : sums_[i].takes) add(Kind::take, static_cast<std::uint32_t>(sum));
    add(Kind::run, static_cast<std::uint32_t>(made_.calls.size()), updates);
    made_.calls.push_back(c);
    for (const Id sum : sums_[i].gives) add(Kind::give, static_cast<std::uint32_t>(sum));
  }

  void wait_for_reads(const std::vector<Id>& instances) {
    for (const Id instance : instances) {
      if (reading_[instance] == kNone) continue;
      add(Kind::wait, static_cast<std::uint32_t>(reading_[instance]));
      reading_[instance] = kNone;
    }
  }

  void set_instances(const std::vector<Id>& buffers, const std::vector<Id>& instances) {
    for (std::size_t k = 0; k < buffers.size(); ++k)
      addresses_.set_instance(buffers[k], instances[k]);
  }

  void add_input(Id value) {
    std::byte* const data = addresses_.of(lowered_.buffer_of[value]);
    if (!data) add_patch(value, false, made_.ins.size());
    const trace::Value& v = trace_.values[value];
    made_.ins.push_back({&v.spec, data ? data + v.offset : nullptr});
  }

  // Whether it is a variable in memory.
  bool add_output(Id value) {
    const Id buffer = lowered_.buffer_of[value];
    std::byte* const data = addresses_.of(buffer);
    if (!data) add_patch(value, true, made_.outs.size());
    made_.outs.push_back({&trace_.values[value].spec, data});
    return !data && lowered_.result_of[buffer] == kNone;
  }

  void add_patch(Id value, bool output, std::size_t at) {
    const auto place = static_cast<std::uint32_t>(at);
    const std::uint64_t offset = trace_.values[value].offset;
    const Id buffer = lowered_.buffer_of[value], result = lowered_.result_of[buffer];
    const trace::Value& named = trace_.values[lowered_.value_of[buffer]];
    if (result != kNone)
      made_.results.push_back({output, place, result, offset});
    else if (named.kind == trace::Kind::input)
      made_.inputs.push_back({output, place, named.index, offset});
    else
      made_.variables.push_back(
          {output, place, resident_.find(trace_.variables[named.index]), offset});
  }

  void add_stream(Actions::Call& c, Id node, const trace::Call& call) {
    for (const plan::Lowered::Stream& stream : lowered_.streams) {
      if (stream.node != node) continue;
      std::vector<int> slots;
      for (const auto& a : stream.arrays)
        slots.push_back(spilled_->slot_of(trace_.variables[trace_.values[call.in[a.in]].index]));
      c.stream = static_cast<Id>(made_.streams.size());
      made_.streams.emplace_back(call, stream, std::move(slots), made_.ins_of(c), made_.outs_of(c));
    }
  }

  const plan::Program& program_;
  const trace::Trace& trace_;
  const plan::Lowered& lowered_;
  const plan::Schedule& schedule_;
  Addresses& addresses_;
  const SpilledVariables* spilled_;
  const ResidentVariables& resident_;
  const std::vector<SumUses> sums_;  // per step; none where nothing is chained
  Actions made_;
  std::vector<Id> reading_;  // per instance: the transfer that nobody has waited for, or kNone
  std::vector<bool> taken_;  // per instance: its bytes become another's in its last step
  std::vector<std::vector<std::uint32_t>> wait_before_, wait_after_;  // per step: transfers
};

}  // namespace

Actions make_actions(const plan::Program& program, Addresses& addresses,
                     const SpilledVariables* spilled, const ResidentVariables& resident,
                     bool chained) {
  return Builder(program, addresses, spilled, resident, chained).build();
}

void Actions::run(SpillFile* file, CallSeconds* times, bool& updated, RankChain* chain) {
  timeline::Track* const line = timeline::work();
  const bool clocked = times || line;
  for (const Action& a : list) {
    switch (a.kind) {
      case Kind::run: {
        if (!updated && LeaveSteps::asked()) throw StepLeft();
        const Call& c = calls[a.index];
        const std::int64_t begin = clocked ? timeline::nanoseconds_now() : 0;
        const ops::Scratch scratch{c.scratch, c.scratch_bytes};
        StreamedUpdate* const stream = c.stream == kNone ? nullptr : &streams[c.stream];
        if (stream) stream->begin(*file, scratch);
        updated |= a.updates;
        if (stream)
          stream->run(*file, ins_of(c), outs_of(c), scratch);
        else
          c.type->run(c.op, ins_of(c), outs_of(c), scratch);
        const std::int64_t end = clocked ? timeline::nanoseconds_now() : 0;
        if (times) times->add(c.call, static_cast<double>(end - begin) * 1e-9);
        if (line)
          line->add({.begin = begin,
                     .end = end,
                     .name = c.type->name,
                     .scope = c.scope,
                     .kind = timeline::Kind::call});
        break;
      }
      case Kind::write: {
        Transfer& t = transfers[a.index];
        t.ticket = file->write(t.slot, {t.data, t.bytes});
        break;
      }
      case Kind::read: {
        Transfer& t = transfers[a.index];
        t.ticket = file->read(t.slot, {t.data, t.bytes});
        break;
      }
      case Kind::wait: {
        const timeline::Slice wait("wait for the spill file", timeline::Kind::wait);
        file->wait(transfers[a.index].ticket);
        break;
      }
      case Kind::take:
        chain->take(a.index);
        break;
      case Kind::give:
        chain->give(a.index);
        break;
    }
  }
}

}  // namespace ebb::exec
