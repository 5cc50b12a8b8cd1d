// The fused call as an op: tile after tile, each member's own kernel in turn.
#include "ebb/base/pool.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/trace/fuse.hpp"
#include "ebb/trace/gradient_blocks.hpp"

namespace ebb::trace {
namespace {

constexpr double kWorthThreads = 32768;  // element operations

struct Fused {
  static constexpr auto name = "fused";
  static constexpr bool half = true;
  static constexpr bool unlisted = true;
  const Group* group;  // the trace holds it
  bool operator==(const Fused& o) const { return group == o.group || *group == *o.group; }

  const Spec& result() const { return group->places[group->result].whole; }
  Spec shape(ops::Specs) const { return result(); }
  ops::Cost cost(ops::Specs in) const {
    ops::Cost cost{group->flops, static_cast<double>(result().bytes())};
    for (const Spec& x : in) cost.bytes += static_cast<double>(x.bytes());
    return cost;
  }
  std::size_t scratch(ops::Specs) const {
    const bool threads = group->tiles > 1 && group->work >= kWorthThreads;
    return group->lane * static_cast<std::size_t>(threads ? pool::threads() : 1);
  }
  // A tile of the result is written when nothing of the tile is read any more but by the op that
  // writes it, element by element.
  std::uint32_t overwrites(int) const {
    std::uint32_t may = 0;
    for (Id i = 0; i < group->result; ++i)
      may |= (group->places[i].whole == result() ? 1u : 0u) << i;
    return may;
  }

  void run(ops::Ins in, ops::Out out, ops::Scratch scratch) const {
    const auto lanes = scratch.size() / group->lane;
    const auto tiles = static_cast<std::size_t>(group->tiles);
    if (lanes < 2 || static_cast<int>(lanes) < pool::threads()) {
      run_tiles(0, tiles, in, out, scratch.data());
      return;
    }
    const auto grain = static_cast<std::size_t>(kWorthThreads * group->tiles / group->work) + 1;
    pool::parallel_for(tiles, grain, [&](std::size_t begin, std::size_t end) {
      const auto lane = static_cast<std::size_t>(pool::thread_index());
      run_tiles(begin, end, in, out, scratch.data() + lane * group->lane);
    });
  }

  void run_tiles(std::size_t begin, std::size_t end, ops::Ins in, ops::Out out,
                 std::byte* lane) const {
    const Group& g = *group;
    const auto address = [&](Id id, std::size_t tile) -> std::byte* {
      const Group::Place& p = g.places[id];
      if (id > g.result) return lane + p.offset;
      auto* data =
          static_cast<std::byte*>(id == g.result ? out.data : const_cast<void*>(in[id].data));
      return data + tile * p.step;
    };
    for (std::size_t tile = begin; tile < end; ++tile) {
      const auto spec =
          tile + 1 == static_cast<std::size_t>(g.tiles) ? &Group::Place::rest : &Group::Place::tile;
      for (const Group::Member& m : g.members) {
        ops::In ins[Group::kMostOperands];
        for (std::size_t i = 0; i < m.in.size(); ++i)
          ins[i] = {&(g.places[m.in[i]].*spec), address(m.in[i], tile)};
        const ops::Out result{&(g.places[m.out].*spec), address(m.out, tile)};
        m.op.type().run(m.op.attributes(), {ins, m.in.size()}, {&result, 1}, {});
      }
    }
  }
};

}  // namespace

ops::AnyOp fused_op(const Group* group) {
  const Fused op{group};
  return ops::AnyOp(ops::op_type<Fused>(), &op);
}

const Group* group_of(const Call& call) {
  if (&call.op.type() != &ops::op_type<Fused>()) return nullptr;
  return static_cast<const Fused*>(call.op.attributes())->group;
}

std::string title(const Call& call) {
  std::string text = call.op.type().name;
  if (const Group* g = group_of(call)) {
    for (const Group::Member& m : g->members)
      text += (&m == &g->members.front() ? "[" : " ") + std::string(m.op.type().name);
    text += ']';
  }
  if (const GradientBlocks* w = gradient_blocks_of(call)) {
    text += '[';
    for (const GradientBlocks::Member& m : w->members) text += std::string(m.op.type().name) + ' ';
    text += std::string(w->update.type().name) + ']';
  }
  return text;
}

}  // namespace ebb::trace
