#include "ebb/exec/executor.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "ebb/base/budget.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/exec/stream.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/plan/pack/program.hpp"
#include "ebb/trace/fuse.hpp"

namespace ebb::exec {

using plan::Id;
using plan::kNone;
using plan::kOutside;
using plan::Plan;
using plan::Program;
using trace::Kind;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Steps shorter than this are timed call by call only once in a while.
constexpr double kLongStep = 5e-3;
constexpr std::uint64_t kTimedEvery = 256;

}  // namespace

// A program with every pointer in place, but for those that differ from step to step.
struct Executor::Pass {
  const Program* program;

  struct Action {
    enum class Kind : std::uint8_t { run, write, read, wait } kind;
    bool updates = false;  // a variable in memory
    std::uint32_t index;   // run: into calls; else into transfers
  };
  struct Call {
    const ops::OpType* type;
    const void* op;
    std::uint32_t first_in, ins, first_out, outs;
    std::byte* scratch;
    std::size_t scratch_bytes;
    Id call;
    Id stream = kNone;  // where it is one
  };
  struct Transfer {
    int slot;
    std::byte* data;
    std::uint64_t bytes;
    Spill::Ticket ticket;
  };
  struct Patch {
    bool output;
    std::uint32_t place;  // in ins or outs
    Id index;
    std::uint64_t offset;
  };

  std::vector<Action> actions;
  std::vector<Call> calls;
  std::vector<Stream> streams;
  std::vector<Transfer> transfers;
  std::vector<ops::In> ins;
  std::vector<ops::Out> outs;
  std::vector<Patch> inputs, variables, written;  // written: results, straight away
  std::vector<Id> variable_at;  // per variable of the trace: which of the resident ones, or kNone
  std::vector<double> seconds;  // per call of the trace
  std::vector<std::uint64_t> runs;
  struct Bytes {
    const std::byte* from;
    std::byte* to;
    std::uint64_t bytes;
    Id variable = kNone;  // to this one, instead
  };
  std::vector<Bytes> carry_copies, variable_copies;
  struct Result {
    const std::byte* from;
    Id input = kNone, variable = kNone;  // where it is one of these unchanged
    bool written = false;                // it is there already
    std::uint64_t offset = 0;
  };
  std::vector<Result> results;
  std::vector<std::uint64_t> input_row_bytes;

  ops::Ins ins_of(const Call& c) const { return {&ins[c.first_in], c.ins}; }
  ops::Outs outs_of(const Call& c) const { return {&outs[c.first_out], c.outs}; }
};

Executor::Executor(Plan plan, const CompileOptions& options, Arenas& arenas)
    : shared_plan_(std::make_shared<Plan>(std::move(plan))), plan_(*shared_plan_), arenas_(arenas) {
  open_store(options);
  find_variables();
}

Executor::Executor(Plan plan, const Executor& larger)
    : shared_plan_(std::make_shared<Plan>(std::move(plan))),
      plan_(*shared_plan_),
      arenas_(larger.arenas_),
      arena_(larger.arena_),
      file_(larger.file_),
      store_(larger.store_),
      most_arena_(larger.most_arena_) {
  find_variables();
}

void Executor::find_variables() {
  for (std::size_t p = 0; p < plan_.programs.size(); ++p)
    for (const Variable& v : plan_.programs[p].trace.variables) {
      const bool spilled =
          store_ && std::find(store_->variables().begin(), store_->variables().end(), v) !=
                        store_->variables().end();
      if (!spilled && std::find(resident_.begin(), resident_.end(), v) == resident_.end())
        resident_.push_back(v);
    }
  resident_bytes_.assign(resident_.size(), nullptr);
  std::uint64_t bytes = 64;
  for (const trace::Before& b : plan_.programs.back().trace.before)
    bytes += memory::aligned(b.spec.bytes());
  before_.resize(bytes + 64);
}

Executor::~Executor() = default;

Spilled::Spilled(const Plan& plan) : variables(plan::spilled_variables(plan.programs)) {
  any = !variables.empty();
  for (const Program& p : plan.programs) {
    activations.resize(p.first_slot + p.lowered.graph.buffers.size());
    for (const plan::Step& s : p.schedule.steps) {
      if (s.kind == plan::Step::Kind::run) continue;
      const bool write = s.kind == plan::Step::Kind::write;
      const Id buffer = p.schedule.instances[write ? s.in[0] : s.out[0]].buffer;
      const plan::Buffer& b = p.lowered.graph.buffers[buffer];
      if (b.origin == plan::Origin::made)
        activations[p.first_slot + static_cast<std::size_t>(buffer)] = b.bytes;
      any = true;
    }
  }
}

std::uint64_t Spilled::memory() const {
  return any ? Spill::memory_bytes({}, Store::slots(variables, activations)) : 0;
}

std::uint64_t Spilled::disk() const {
  return any ? Spill::file_bytes(Store::slots(variables, activations)) : 0;
}

void Executor::open_store(const CompileOptions& options) {
  const Spilled spilled(plan_);
  if (!spilled.any) return;
  auto store = std::make_shared<Store>(SpillOptions{.directory = options.spill_directory},
                                       spilled.variables, spilled.activations);
  file_ = std::make_shared<File>(std::move(store));
  store_ = file_->store.get();
  store_->fill();
}

std::unique_ptr<Executor::Pass> Executor::prepare(std::size_t index) {
  const Program& p = plan_.programs[index];
  const trace::Trace& t = p.trace;
  const plan::Schedule& s = p.schedule;
  auto pass = std::make_unique<Pass>();
  pass->program = &p;
  pass->seconds.assign(t.calls.size(), 0);
  pass->runs.assign(t.calls.size(), 0);
  for (const Variable& v : t.variables) {
    const auto at = std::find(resident_.begin(), resident_.end(), v);
    pass->variable_at.push_back(at == resident_.end() ? kNone
                                                      : static_cast<Id>(at - resident_.begin()));
  }
  std::byte* const aligned_before = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(before_.data()) + 63) / 64 * 64);
  key_ = reinterpret_cast<std::int64_t*>(aligned_before);
  std::vector<std::byte*> before_at;
  for (const trace::Before& b : t.before) {
    std::byte* place = aligned_before + 64;
    for (const trace::Before& other : plan_.programs.back().trace.before) {
      if (other.name == b.name) break;
      place += memory::aligned(other.spec.bytes());
    }
    before_at.push_back(place);
  }

  // Where a buffer's bytes are while `instance` of it is there; null for what is found at each
  // step.
  const auto find = [&](Id buffer, Id instance) -> std::byte* {
    if (p.lowered.sum_of[buffer] != kNone)
      return base_ + plan_.carry_offsets[static_cast<std::size_t>(p.lowered.sum_of[buffer])];
    if (p.lowered.result_of[buffer] != kNone) return nullptr;
    if (p.lowered.streamed[buffer]) return base_;  // it has no place
    if (instance != kNone && p.offsets[instance] != kOutside) return base_ + p.offsets[instance];
    const trace::Value& v = t.values[p.lowered.value_of[buffer]];
    switch (v.kind) {
      case Kind::constant:
        return const_cast<std::byte*>(t.constants[v.index].raw());
      case Kind::before:
        return before_at[v.index];
      case Kind::key:
        return reinterpret_cast<std::byte*>(key_);
      case Kind::carried:
      case Kind::input:
      case Kind::variable:
        return nullptr;
      case Kind::made:
        return base_;  // of no bytes
    }
    return nullptr;
  };
  const auto patch = [&](Id value, bool output, std::uint32_t place) {
    const trace::Value& v = t.values[value];
    const Id buffer = p.lowered.buffer_of[value], result = p.lowered.result_of[buffer];
    const trace::Value& named = t.values[p.lowered.value_of[buffer]];
    if (result != kNone)
      pass->written.push_back({output, place, result, v.offset});
    else if (named.kind == Kind::input)
      pass->inputs.push_back({output, place, named.index, v.offset});
    else
      pass->variables.push_back({output, place, pass->variable_at[named.index], v.offset});
  };

  std::vector<Id> reading(s.instances.size(), kNone);
  std::vector<std::vector<std::uint32_t>> wait_before(s.steps.size()), wait_after(s.steps.size());
  std::vector<bool> taken(s.instances.size());  // its bytes become another's in its last step
  for (const plan::Instance& in : s.instances)
    if (in.takes != kNone) taken[in.takes] = true;
  std::vector<Id> instance_of(p.lowered.graph.buffers.size(), kNone);
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    const plan::Step& step = s.steps[i];
    for (const std::uint32_t transfer : wait_before[i])
      pass->actions.push_back({Pass::Action::Kind::wait, false, transfer});
    if (step.kind != plan::Step::Kind::run) {
      const bool write = step.kind == plan::Step::Kind::write;
      const Id instance = write ? step.in[0] : step.out[0];
      const Id buffer = s.instances[instance].buffer;
      const bool state = p.lowered.graph.buffers[buffer].origin == plan::Origin::state;
      const trace::Value& v = t.values[p.lowered.value_of[buffer]];
      const int slot = state ? store_->slot_of(t.variables[v.index])
                             : store_->activation_slot(static_cast<int>(p.first_slot) + buffer);
      const auto transfer = static_cast<std::uint32_t>(pass->transfers.size());
      pass->transfers.push_back({slot, find(buffer, instance), v.spec.bytes(), {}});
      pass->actions.push_back(
          {write ? Pass::Action::Kind::write : Pass::Action::Kind::read, false, transfer});
      if (write) {
        const auto last = static_cast<std::size_t>(s.instances[instance].last);
        if (taken[instance] && last > i)
          wait_before[last].push_back(transfer);
        else
          wait_after[std::max(last, i)].push_back(transfer);
      } else {
        reading[instance] = static_cast<Id>(transfer);
        instance_of[buffer] = instance;
      }
    } else {
      const plan::Node& node = p.lowered.graph.nodes[step.node];
      for (const auto* list : {&step.in, &step.updates})
        for (const Id instance : *list)
          if (reading[instance] != kNone) {
            pass->actions.push_back(
                {Pass::Action::Kind::wait, false, static_cast<std::uint32_t>(reading[instance])});
            reading[instance] = kNone;
          }
      for (std::size_t k = 0; k < node.in.size(); ++k) instance_of[node.in[k]] = step.in[k];
      for (std::size_t k = 0; k < node.updates.size(); ++k)
        instance_of[node.updates[k]] = step.updates[k];
      const trace::Call& call = t.calls[p.lowered.call[step.node]];
      Pass::Call c{&call.op.type(),
                   call.op.attributes(),
                   static_cast<std::uint32_t>(pass->ins.size()),
                   static_cast<std::uint32_t>(call.in.size()),
                   static_cast<std::uint32_t>(pass->outs.size()),
                   static_cast<std::uint32_t>(call.out.size()),
                   base_ + p.scratch[i],
                   step.scratch,
                   p.lowered.call[step.node]};
      for (const Id value : call.in) {
        const Id buffer = p.lowered.buffer_of[value];
        std::byte* data = find(buffer, instance_of[buffer]);
        if (!data) patch(value, false, static_cast<std::uint32_t>(pass->ins.size()));
        pass->ins.push_back(
            {&t.values[value].spec, data ? data + t.values[value].offset : nullptr});
      }
      for (std::size_t k = 0; k < node.out.size(); ++k) instance_of[node.out[k]] = step.out[k];
      bool updates = false;
      for (const Id value : call.out) {
        const Id buffer = p.lowered.buffer_of[value];
        std::byte* data = find(buffer, instance_of[buffer]);
        if (!data) {
          patch(value, true, static_cast<std::uint32_t>(pass->outs.size()));
          updates |= p.lowered.result_of[buffer] == kNone;
        }
        pass->outs.push_back({&t.values[value].spec, data});
      }
      for (const plan::Lowered::Stream& stream : p.lowered.streams) {
        if (stream.node != step.node) continue;
        std::vector<int> slots;
        for (const auto& a : stream.arrays)
          slots.push_back(store_->slot_of(t.variables[t.values[call.in[a.in]].index]));
        c.stream = static_cast<Id>(pass->streams.size());
        pass->streams.emplace_back(call, stream, std::move(slots), pass->ins_of(c),
                                   pass->outs_of(c));
      }
      pass->actions.push_back(
          {Pass::Action::Kind::run, updates, static_cast<std::uint32_t>(pass->calls.size())});
      pass->calls.push_back(c);
    }
    for (const std::uint32_t transfer : wait_after[i])
      pass->actions.push_back({Pass::Action::Kind::wait, false, transfer});
  }

  for (std::size_t k = 0; k < t.carry.size(); ++k) {
    const Id value = t.carry[k];
    if (value == kNone || plan_.carry_offsets.empty()) continue;
    const Id buffer = p.lowered.buffer_of[value];
    std::byte* const to = base_ + plan_.carry_offsets[k];
    std::byte* const from = find(buffer, instance_of[buffer]) + t.values[value].offset;
    if (from != to) pass->carry_copies.push_back({from, to, t.values[value].spec.bytes()});
  }
  for (const plan::Lowered::Copy& c : p.lowered.copies)
    pass->variable_copies.push_back({find(c.from_buffer, instance_of[c.from_buffer]), nullptr,
                                     t.variables[c.variable].spec().bytes(),
                                     pass->variable_at[c.variable]});
  for (const Id value : t.results) {
    const Id buffer = p.lowered.buffer_of[value];
    const trace::Value& named = t.values[p.lowered.value_of[buffer]];
    Pass::Result r{find(buffer, instance_of[buffer])};
    r.written = p.lowered.result_of[buffer] != kNone;
    if (!r.from && !r.written) (named.kind == Kind::input ? r.input : r.variable) = named.index;
    r.offset = t.values[value].offset;
    pass->results.push_back(r);
  }
  for (const Spec& in : t.inputs)
    pass->input_row_bytes.push_back(in.rank() && in.shape[0] ? in.bytes() / in.shape[0] : 0);
  return pass;
}

void Executor::own_variables() {
  const memory::Drawing draws(arenas_.promise());
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    resident_[i].own();
    std::byte* const bytes = resident_[i].bytes();
    if (bytes == resident_bytes_[i]) continue;
    resident_bytes_[i] = bytes;
    for (const auto& pass : passes_)
      for (const Pass::Patch& p : pass->variables)
        if (p.index == static_cast<Id>(i)) {
          if (p.output)
            pass->outs[p.place].data = bytes + p.offset;
          else
            pass->ins[p.place].data = bytes + p.offset;
        }
  }
}

void Executor::patch(Pass& pass, std::span<const Tensor> inputs, const Plan::Run& run,
                     Places results) {
  for (const Pass::Patch& p : pass.inputs) {
    const auto i = static_cast<std::size_t>(p.index);
    const std::uint64_t row0 = plan_.split() ? static_cast<std::uint64_t>(run.first) : 0;
    pass.ins[p.place].data = inputs[i].raw() + row0 * pass.input_row_bytes[i] + p.offset;
  }
  for (const Pass::Patch& p : pass.written) {
    std::byte* const data = place_of(pass, run, static_cast<std::size_t>(p.index), results);
    if (p.output)
      pass.outs[p.place].data = data + p.offset;
    else
      pass.ins[p.place].data = data + p.offset;
  }
}

// Where result `i` of this part goes.
std::byte* Executor::place_of(const Pass& pass, const Plan::Run& run, std::size_t i,
                              Places results) const {
  const Program& p = *pass.program;
  const auto place = static_cast<std::size_t>(p.result_index.empty() ? i : p.result_index[i]);
  if (!plan_.split() || !plan_.result_per_example[place]) return results[place];
  return results[place] + p.trace.values[p.trace.results[i]].spec.bytes() /
                              static_cast<std::uint64_t>(run.examples) *
                              static_cast<std::uint64_t>(run.first);
}

void Executor::run_actions(Pass& pass, bool timed) {
  for (const Pass::Action& a : pass.actions) {
    switch (a.kind) {
      case Pass::Action::Kind::run: {
        const Pass::Call& c = pass.calls[a.index];
        const double begin = timed ? now() : 0;
        const ops::Scratch scratch{c.scratch, c.scratch_bytes};
        Stream* const stream = c.stream == kNone ? nullptr : &pass.streams[c.stream];
        if (stream) stream->begin(store_->file(), scratch);
        updating_ |= a.updates;
        if (stream)
          stream->run(store_->file(), pass.ins_of(c), pass.outs_of(c), scratch);
        else
          c.type->run(c.op, pass.ins_of(c), pass.outs_of(c), scratch);
        if (timed) {
          pass.seconds[c.call] += now() - begin;
          ++pass.runs[c.call];
        }
        break;
      }
      case Pass::Action::Kind::write: {
        Pass::Transfer& t = pass.transfers[a.index];
        t.ticket = store_->file().write(t.slot, {t.data, t.bytes});
        break;
      }
      case Pass::Action::Kind::read: {
        Pass::Transfer& t = pass.transfers[a.index];
        t.ticket = store_->file().read(t.slot, {t.data, t.bytes});
        break;
      }
      case Pass::Action::Kind::wait:
        store_->file().wait(pass.transfers[a.index].ticket);
        break;
    }
  }
}

void Executor::collect(Pass& pass, const Plan::Run& run, std::span<const Tensor> inputs,
                       Places results) {
  const Program& p = *pass.program;
  for (std::size_t i = 0; i < pass.results.size(); ++i) {
    const Pass::Result& r = pass.results[i];
    if (r.written) continue;
    const std::byte* from = r.from;
    if (!from && r.variable != kNone)
      from = p.trace.variables[static_cast<std::size_t>(r.variable)].value().raw();
    if (r.input != kNone) {
      const auto i = static_cast<std::size_t>(r.input);
      const std::uint64_t row0 = plan_.split() ? static_cast<std::uint64_t>(run.first) : 0;
      from = inputs[i].raw() + row0 * pass.input_row_bytes[i];
    }
    std::memcpy(place_of(pass, run, i, results), from + r.offset,
                p.trace.values[p.trace.results[i]].spec.bytes());
  }
}

void Executor::run(std::span<const Tensor> inputs, std::vector<Tensor>& results) {
  results.resize(plan_.result_specs.size());
  places_.resize(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i] || !results[i].unique() || results[i].spec() != plan_.result_specs[i]) {
      // What the caller holds on to is his own, and there has to be room for it.
      const Tensor held = results[i] && !results[i].unique() ? results[i] : Tensor();
      results[i] = {};
      const memory::Drawing draws(held ? nullptr : &arenas_.promise());
      results[i] = Tensor::uninitialized(plan_.result_specs[i], "result", Category::data);
      if (held) {
        memory::draw(held.handle(), nullptr);
        memory::draw(results[i].handle(), &arenas_.promise());
      }
    }
    places_[i] = results[i].bytes();
  }
  run(inputs, Places(places_));
}

void Executor::run(std::span<const Tensor> inputs, Places results) {
  if (torn_)
    throw Error(kTorn);
  Arenas::Lease lease(arenas_, arena_);
  arena_ = &lease.arena();
  if (store_) store_->refresh({arena_->data(), arena_->size()});
  // Also a plan that holds nothing has a place for it.
  for (;;) {
    std::byte* const base = lease.fit(std::max<std::uint64_t>(plan_.arena, 64), most_arena_);
    if (base_ != base || passes_.empty()) {
      passes_.clear();  // and stay so, if this fails
      base_ = base;
      std::vector<std::unique_ptr<Pass>> made;
      for (std::size_t i = 0; i < plan_.programs.size(); ++i) made.push_back(prepare(i));
      passes_ = std::move(made);
      std::fill(resident_bytes_.begin(), resident_bytes_.end(), nullptr);
      timed_steps_ = 0;
    }
    try {
      own_variables();
      break;
    } catch (const OutOfMemory&) {  // another thread's step may have taken what there is
      if (!lease.wait_for_another()) throw;
    }
  }
  const Program& last = plan_.programs.back();
  std::byte* next = reinterpret_cast<std::byte*>(key_) + 64;
  for (const trace::Before& b : last.trace.before) {
    b.fill({next, b.spec.bytes()});
    next += memory::aligned(b.spec.bytes());
  }
  if (plan_.carry_bytes) std::memset(base_, 0, plan_.carry_bytes);

  const bool timed = last_step_seconds_ > kLongStep || steps_ % kTimedEvery == 1;
  const double begin = now();
  updating_ = false;
  random::State draws = random::state();
  try {
    for (const Plan::Run& run : plan_.runs) {
      Pass& pass = *passes_[static_cast<std::size_t>(run.program)];
      patch(pass, inputs, run, results);
      draws.row0 = plan_.split() ? run.first : draws.row0;
      draws.rows = plan_.split() ? run.examples : draws.rows;
      random::write_key(draws, key_);
      run_actions(pass, timed);
      for (const Pass::Bytes& c : pass.carry_copies) std::memcpy(c.to, c.from, c.bytes);
      collect(pass, run, inputs, results);
      if (&run == &plan_.runs.back() || pass.variable_copies.empty()) continue;
      updating_ = true;
      assign(pass);
    }
    if (store_) store_->file().commit();
  } catch (...) {
    if (store_) {
      try {
        store_->file().rollback();
      } catch (const Error&) {
        torn_ = true;  // nobody knows what the file holds
      }
    }
    torn_ |= updating_;
    if (timed) forget_times();
    throw;
  }
  assign(*passes_.back());
  for (const auto& done : last.trace.after) done();
  ++steps_;
  timed_steps_ += timed;
  last_step_seconds_ = now() - begin;
  if (steps_ == 1) runtime::drop_code();  // what only a first step runs
  note_step();
}

// The median of the last steps: the first ones fault their memory in, and others use the machine.
void Executor::note_step() {
  plan::Measured& m = plan_.forecast.measured;
  last_steps_[m.steps++ % last_steps_.size()] = last_step_seconds_;
  if (m.steps > last_steps_.size() && m.steps % kTimedEvery != 0) return;  // it stays about the same
  const std::size_t count = std::min<std::size_t>(m.steps, last_steps_.size());
  std::array<double, kLastSteps> sorted = last_steps_;
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
  m.seconds = sorted[count / 2];
}

void Executor::assign(Pass& pass) {
  for (const Pass::Bytes& c : pass.variable_copies)
    std::memcpy(resident_bytes_[static_cast<std::size_t>(c.variable)], c.from, c.bytes);
}

void Executor::forget_times() {
  for (const auto& pass : passes_) {
    std::fill(pass->seconds.begin(), pass->seconds.end(), 0);
    std::fill(pass->runs.begin(), pass->runs.end(), 0);
  }
  timed_steps_ = 0;
}

std::vector<CallTime> Executor::times() const {
  if (timed_steps_ == 0) return {};
  std::map<std::pair<std::string, std::string>, CallTime> all;
  for (const auto& pass : passes_) {
    if (!pass) continue;
    const trace::Trace& t = pass->program->trace;
    const plan::Schedule& s = pass->program->schedule;
    const std::vector<std::uint64_t> live = plan::live_bytes(*pass->program);
    std::vector<std::uint64_t> most(t.calls.size());
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (s.steps[i].kind != plan::Step::Kind::run) continue;
      std::uint64_t& m = most[pass->program->lowered.call[s.steps[i].node]];
      m = std::max(m, live[i]);
    }
    for (std::size_t i = 0; i < t.calls.size(); ++i) {
      if (!pass->runs[i]) continue;
      const std::string op = trace::title(t.calls[i]), scope = Scope::path(t.calls[i].scope);
      CallTime& c = all[{op, scope}];
      c.op = op;
      c.scope = scope;
      c.seconds += pass->seconds[i] / static_cast<double>(timed_steps_);
      c.runs += pass->runs[i] / timed_steps_;
      c.live_bytes = std::max(c.live_bytes, most[i]);
    }
  }
  std::vector<CallTime> out;
  for (auto& [key, time] : all) out.push_back(std::move(time));
  std::sort(out.begin(), out.end(),
            [](const CallTime& a, const CallTime& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace ebb::exec
