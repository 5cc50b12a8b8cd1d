#include "ebb/kernels/recurrent.hpp"

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

template <class T>
class RecurrentOf : public ::testing::Test {};
TYPED_TEST_SUITE(RecurrentOf, Floats);

struct Size {
  std::size_t batch, steps, hidden;
};
// Around vectors, tiles of rows, blocks of rows and of k.
const Size kSizes[] = {{1, 1, 1},  {1, 4, 32},  {2, 3, 7},   {3, 5, 8},
                       {5, 2, 17}, {13, 3, 33}, {50, 2, 19}, {2, 2, 270}};

struct Setting {
  bool lstm, reverse, state, lengths, dh, dlast;
};
const Setting kSettings[] = {
    {true, false, false, false, true, false}, {true, false, true, false, true, true},
    {true, true, true, false, false, true},   {true, false, true, true, true, true},
    {true, true, true, true, true, true},     {false, false, false, false, true, false},
    {false, true, true, false, true, true},   {false, false, true, true, true, true},
    {false, true, true, true, true, true},
};

// A call forward, back and for the weight, its data, and the same in long double.
template <class T>
struct Problem {
  Size size;
  Setting set;
  std::size_t gates, parts;
  std::vector<std::int32_t> lengths;
  Values<T> gates_in, weight, bias, state, dh, dlast, before;

  Problem(Size s, Setting how)
      : size(s),
        set(how),
        gates(how.lstm ? 4 : 3),
        parts(how.lstm ? 2 : 1),
        gates_in(random_values<T>(s.batch * s.steps * gates * s.hidden, 1)),
        weight(random_values<T>(gates * s.hidden * s.hidden, 2, -0.7, 0.7)),
        bias(random_values<T>(s.hidden, 3)),
        state(random_values<T>(s.batch * parts * s.hidden, 4, -1, 1)),
        dh(random_values<T>(s.batch * s.steps * s.hidden, 5)),
        dlast(random_values<T>(s.batch * parts * s.hidden, 6)),
        before(random_values<T>(gates * s.hidden * s.hidden, 7)) {
    for (std::size_t b = 0; b < s.batch; ++b)
      lengths.push_back(kOffset + static_cast<std::int32_t>((b * 7 + 1) % (s.steps + 2)) - 1);
  }
  static constexpr std::int32_t kOffset = 5;

  Recurrence over() const {
    return {size.batch,
            size.steps,
            size.hidden,
            set.reverse,
            set.lengths ? lengths.data() : nullptr,
            set.lengths ? kOffset : 0};
  }
  const T* from() const { return set.state ? state.data() : nullptr; }
  std::size_t sequence() const { return size.batch * size.steps * size.hidden; }

  // h, last, dgates, [dhidden_n,] dstate, dweight, one after the other.
  Values<T> run(bool in_place = false) const {
    Values<T> h(sequence()), last(state.size()), kept(gates_in.size()), cells(sequence());
    Values<T> dgates(gates_in.size()), drest(sequence()), dstate(state.size()), dweight = before;
    Bytes scratch(recurrent_scratch(over(), gates, sizeof(T)));
    if (in_place) kept = gates_in;
    const T* in = in_place ? kept.data() : gates_in.data();
    const T* dout = set.dh ? dh.data() : nullptr;
    const T* dend = set.dlast ? dlast.data() : nullptr;
    T* to = in_place ? kept.data() : dgates.data();
    T* rest = in_place ? cells.data() : drest.data();
    if (set.lstm) {
      lstm(Lstm<T>{over(), in, weight.data(), from(), h.data(), last.data(), kept.data(),
                   cells.data()},
           scratch);
      lstm_backward(LstmBack<T>{over(), kept.data(), cells.data(), weight.data(), from(), dout,
                                dend, to, dstate.data()},
                    scratch);
    } else {
      gru(Gru<T>{over(), in, weight.data(), bias.data(), from(), h.data(), last.data(), kept.data(),
                 cells.data()},
          scratch);
      gru_backward(GruBack<T>{over(), kept.data(), cells.data(), h.data(), weight.data(), from(),
                              dout, dend, to, rest, dstate.data()},
                   scratch);
    }
    const std::size_t n = size.hidden;
    const RecurrentWeightGrad<T> sum{over(),
                                     to,
                                     gates * n,
                                     set.lstm ? 4 * n : 2 * n,
                                     set.lstm ? nullptr : rest,
                                     set.lstm ? 0 : n,
                                     h.data(),
                                     from(),
                                     parts * n,
                                     dweight.data()};
    Bytes more(recurrent_weight_grad_scratch(sum));
    recurrent_weight_grad(sum, more);
    Values<T> all;
    const auto append = [&](const T* p, std::size_t count) { all.insert(all.end(), p, p + count); };
    append(h.data(), h.size());
    append(last.data(), last.size());
    append(to, dgates.size());
    if (!set.lstm) append(rest, drest.size());
    append(dstate.data(), dstate.size());
    append(dweight.data(), dweight.size());
    return all;
  }

  std::vector<Ld> expected() const;
};

Ld sigmoid(Ld x) { return 1 / (1 + std::exp(-x)); }

// Plain loops, one row of the batch after the other.
struct RowStep {
  std::size_t time;
  std::vector<Ld> gate, before, cell_before, cell, hidden_n;
};

template <class T>
struct Reference {
  const Problem<T>& p;
  const std::size_t n = p.size.hidden, S = p.size.steps, gates = p.gates;
  std::vector<Ld> h = std::vector<Ld>(p.sequence()), last = std::vector<Ld>(p.state.size()),
                  dgates = std::vector<Ld>(p.gates_in.size()),
                  drest = std::vector<Ld>(p.sequence()), dstate = std::vector<Ld>(p.state.size()),
                  dweight = std::vector<Ld>(p.before.begin(), p.before.end());

  RowStep gates_of(std::size_t row, std::size_t time, const std::vector<Ld>& now,
                   const std::vector<Ld>& cell) const {
    RowStep step{time, std::vector<Ld>(gates * n), now, cell, cell, std::vector<Ld>(n)};
    const T* in = p.gates_in.data() + (row * S + time) * gates * n;
    for (std::size_t j = 0; j < gates * n; ++j) {
      Ld sum = 0;
      for (std::size_t k = 0; k < n; ++k) sum += Ld(p.weight[j * n + k]) * now[k];
      if (!p.set.lstm && j >= 2 * n) {
        step.hidden_n[j - 2 * n] = sum + p.bias[j - 2 * n];
        step.gate[j] = std::tanh(in[j] + step.gate[j - 2 * n] * step.hidden_n[j - 2 * n]);
      } else {
        step.gate[j] = p.set.lstm && j / n == 2 ? std::tanh(in[j] + sum) : sigmoid(in[j] + sum);
      }
    }
    return step;
  }

  std::vector<RowStep> forward(std::size_t row) {
    std::vector<RowStep> steps;
    std::vector<Ld> now(n), cell(n);
    for (std::size_t u = 0; p.set.state && u < n; ++u) {
      now[u] = p.state[row * p.parts * n + u];
      if (p.set.lstm) cell[u] = p.state[row * 2 * n + n + u];
    }
    for (std::size_t s = 0; s < S; ++s) {
      const std::size_t t = p.set.reverse ? S - 1 - s : s;
      if (p.set.lengths && p.kOffset + static_cast<std::int32_t>(t) >= p.lengths[row]) continue;
      RowStep step = gates_of(row, t, now, cell);
      for (std::size_t u = 0; u < n; ++u) {
        const Ld* g = step.gate.data() + u;
        if (p.set.lstm) {
          cell[u] = g[n] * cell[u] + g[0] * g[2 * n];
          now[u] = g[3 * n] * std::tanh(cell[u]);
        } else {
          now[u] = (1 - g[n]) * g[2 * n] + g[n] * now[u];
        }
        h[(row * S + t) * n + u] = now[u];
      }
      step.cell = cell;
      steps.push_back(step);
    }
    for (std::size_t u = 0; u < n; ++u) {
      last[row * p.parts * n + u] = now[u];
      if (p.set.lstm) last[row * 2 * n + n + u] = cell[u];
    }
    return steps;
  }

  // Through one step: dnow and dcell are what comes from later, and become what goes to earlier.
  void backward(std::size_t row, const RowStep& step, std::vector<Ld>& dnow,
                std::vector<Ld>& dcell) {
    const std::size_t at = row * S + step.time;
    Ld* d = dgates.data() + at * gates * n;
    std::vector<Ld> through(gates * n), next(n);
    for (std::size_t u = 0; u < n; ++u) {
      const Ld* g = step.gate.data() + u;
      const Ld dout = dnow[u] + (p.set.dh ? Ld(p.dh[at * n + u]) : 0);
      if (p.set.lstm) {
        const Ld t = std::tanh(step.cell[u]);
        const Ld dc = dcell[u] + dout * g[3 * n] * (1 - t * t);
        d[u] = dc * g[2 * n] * g[0] * (1 - g[0]);
        d[n + u] = dc * step.cell_before[u] * g[n] * (1 - g[n]);
        d[2 * n + u] = dc * g[0] * (1 - g[2 * n] * g[2 * n]);
        d[3 * n + u] = dout * t * g[3 * n] * (1 - g[3 * n]);
        dcell[u] = dc * g[n];
        for (std::size_t j = 0; j < 4; ++j) through[j * n + u] = d[j * n + u];
      } else {
        const Ld dn = dout * (1 - g[n]) * (1 - g[2 * n] * g[2 * n]);
        through[u] = d[u] = dn * step.hidden_n[u] * g[0] * (1 - g[0]);
        through[n + u] = d[n + u] = dout * (step.before[u] - g[2 * n]) * g[n] * (1 - g[n]);
        d[2 * n + u] = dn;
        through[2 * n + u] = drest[at * n + u] = dn * g[0];
        next[u] = dout * g[n];
      }
    }
    for (std::size_t j = 0; j < gates * n; ++j) {
      for (std::size_t k = 0; k < n; ++k) {
        next[k] += through[j] * p.weight[j * n + k];
        dweight[j * n + k] += through[j] * step.before[k];
      }
    }
    dnow = next;
  }

  void row(std::size_t row) {
    const std::vector<RowStep> steps = forward(row);
    std::vector<Ld> dnow(n), dcell(n);
    for (std::size_t u = 0; p.set.dlast && u < n; ++u) {
      dnow[u] = p.dlast[row * p.parts * n + u];
      if (p.set.lstm) dcell[u] = p.dlast[row * 2 * n + n + u];
    }
    for (std::size_t s = steps.size(); s-- > 0;) backward(row, steps[s], dnow, dcell);
    for (std::size_t u = 0; u < n; ++u) {
      dstate[row * p.parts * n + u] = dnow[u];
      if (p.set.lstm) dstate[row * 2 * n + n + u] = dcell[u];
    }
  }
};

template <class T>
std::vector<Ld> Problem<T>::expected() const {
  Reference<T> r{*this};
  for (std::size_t row = 0; row < size.batch; ++row) r.row(row);
  std::vector<Ld> all;
  for (const auto* part : {&r.h, &r.last, &r.dgates, &r.drest, &r.dstate, &r.dweight})
    if (!(set.lstm && part == &r.drest)) all.insert(all.end(), part->begin(), part->end());
  return all;
}

template <class F>
void for_each_problem(F&& f) {
  for (const Size& size : kSizes) {
    for (const Setting& set : kSettings) {
      SCOPED_TRACE(::testing::Message()
                   << (set.lstm ? "lstm " : "gru ") << size.batch << "x" << size.steps << "x"
                   << size.hidden << (set.reverse ? " reverse" : "") << (set.state ? " state" : "")
                   << (set.lengths ? " lengths" : ""));
      f(size, set);
    }
  }
}

TYPED_TEST(RecurrentOf, AgreesWithPlainLoops) {
  for_each_target([](std::int64_t) {
    for_each_problem([](const Size& size, const Setting& set) {
      const Problem<TypeParam> p(size, set);
      const auto got = p.run();
      const auto want = p.expected();
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        expect_near(got[i], want[i], 30 * std::sqrt(static_cast<double>(size.hidden)), "value", i);
    });
  });
}

TYPED_TEST(RecurrentOf, HasOneResultInPlaceOnAllThreadsAndTargets) {
  for (const Setting& set : kSettings) {
    for (const Size& size : {Size{13, 3, 33}, Size{100, 3, 64}, Size{7, 20, 70}}) {
      const Problem<TypeParam> p(size, set);
      EXPECT_TRUE(same_bits(p.run(), p.run(true))) << "in place";
      expect_one_result([&] { return p.run(); });
    }
  }
}

// A row's bits are its own: those of a batch of one.
TEST(Recurrent, RowsDoNotKnowOfEachOther) {
  const Size size{11, 6, 40};
  const Problem<float> all(size, kSettings[1]);
  const auto together = all.run();
  const std::size_t row = 7, each = size.steps * size.hidden;
  Problem<float> one({1, size.steps, size.hidden}, kSettings[1]);
  const auto take = [&](Values<float>& to, const Values<float>& from) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(row * to.size()), to.size(), to.begin());
  };
  take(one.gates_in, all.gates_in);
  take(one.state, all.state);
  take(one.dh, all.dh);
  take(one.dlast, all.dlast);
  one.weight = all.weight;
  const auto alone = one.run();
  EXPECT_EQ(std::memcmp(together.data() + row * each, alone.data(), each * sizeof(float)), 0);
  const std::size_t dgates_at = size.batch * (each + 2 * size.hidden) + row * 4 * each;
  EXPECT_EQ(std::memcmp(together.data() + dgates_at, alone.data() + each + 2 * size.hidden,
                        4 * each * sizeof(float)),
            0);
}

// The sum over examples goes on from what is there, in their order: many chunks, the same bits.
TEST(Recurrent, TheWeightSumMayBeCutBetweenExamples) {
  const Recurrence over{90, 40, 24, false, nullptr, 0};
  const std::size_t n = over.hidden;
  const auto d = random_values<float>(over.batch * over.steps * 4 * n, 1);
  const auto h = random_values<float>(over.batch * over.steps * n, 2);
  const auto run = [&](std::size_t cut) {
    Values<float> sum(4 * n * n, 0.0f);
    for (const auto& [first, end] : {std::pair{std::size_t{0}, cut}, std::pair{cut, over.batch}}) {
      Recurrence part = over;
      part.batch = end - first;
      const RecurrentWeightGrad<float> call{
          part, d.data() + first * over.steps * 4 * n, 4 * n,   4 * n, nullptr,
          0,    h.data() + first * over.steps * n,     nullptr, 0,     sum.data()};
      Bytes scratch(recurrent_weight_grad_scratch(call));
      recurrent_weight_grad(call, scratch);
    }
    return sum;
  };
  const auto whole = run(0);
  for (const std::size_t cut : {1, 31, 89}) EXPECT_TRUE(same_bits(whole, run(cut))) << cut;
}

}  // namespace
}  // namespace ebb::kernels::rows_test
