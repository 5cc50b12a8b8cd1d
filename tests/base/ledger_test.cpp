#include "ebb/base/memory/ledger.hpp"

#include <gtest/gtest.h>

#include "ebb/base/memory/memory.hpp"

namespace ebb {
namespace {

TEST(Ledger, EntersWhatIsLiveAndItsPeak) {
  const Usage before = ledger::of(Category::data);
  void* a = memory::take(1000, "a", Category::data);
  void* b = memory::take(500, "b", Category::data);
  EXPECT_EQ(ledger::of(Category::data).live, before.live + 1500);
  memory::give(a);
  EXPECT_EQ(ledger::of(Category::data).live, before.live + 500);
  EXPECT_GE(ledger::of(Category::data).peak, before.live + 1500);
  memory::give(b);
  EXPECT_EQ(ledger::of(Category::data).live, before.live);
}

TEST(Ledger, KnowsCategoryAtThePeakOfTheTotal) {
  ledger::reset_peak();
  const std::uint64_t base = ledger::of(Category::workspace).live;
  void* a = memory::take(1 << 20, "a", Category::workspace);
  EXPECT_EQ(ledger::at_peak(Category::workspace), base + (1 << 20));
  memory::give(a);
  void* b = memory::take(1 << 10, "b", Category::workspace);
  EXPECT_EQ(ledger::at_peak(Category::workspace), base + (1 << 20))
      << "a lower load is no new peak";
  memory::give(b);
}

TEST(Ledger, RetagMovesBytesBetweenCategories) {
  const std::uint64_t data = ledger::of(Category::data).live;
  const std::uint64_t params = ledger::of(Category::parameters).live;
  void* p = memory::take(4096, "x", Category::data);
  memory::retag(p, Category::parameters);
  EXPECT_EQ(ledger::of(Category::data).live, data);
  EXPECT_EQ(ledger::of(Category::parameters).live, params + 4096);
  memory::give(p);
  EXPECT_EQ(ledger::of(Category::parameters).live, params);
}

TEST(Ledger, ScopesNestAndHoldTheirBytes) {
  void* p = nullptr;
  {
    const Scope outer("decoder");
    const Scope inner("layer3");
    EXPECT_EQ(Scope::path(Scope::current()), "decoder/layer3");
    EXPECT_EQ(Scope::find("decoder/layer3"), Scope::current());
    p = memory::take(12345, "attn_product");
  }
  EXPECT_EQ(Scope::path(Scope::current()), "");
  bool found = false;
  for (const ScopeUsage& s : ledger::scopes())
    if (s.path == "decoder/layer3") {
      found = true;
      EXPECT_EQ(s.usage.live, 12345u);
      EXPECT_NE(s.opened.find("ledger_test.cpp:"), std::string::npos) << s.opened;
    }
  EXPECT_TRUE(found);
  memory::give(p);
}

TEST(Ledger, HoldingsNameSiteScopeAndCategory) {
  const Scope scope("holdings");
  void* a = memory::take(50 << 20, "big", Category::optimizer);
  void* b = memory::take(50 << 20, "big", Category::optimizer);
  const auto top = ledger::holdings(1);
  ASSERT_EQ(top.size(), 1u);
  EXPECT_EQ(top[0].bytes, 100u << 20);
  EXPECT_EQ(top[0].count, 2u);
  EXPECT_EQ(top[0].category, Category::optimizer);
  EXPECT_EQ(top[0].scope, "holdings");
  EXPECT_NE(top[0].site.find("big (scope opened at ledger_test.cpp:"), std::string::npos)
      << top[0].site;
  memory::give(a);
  memory::give(b);
}

TEST(Ledger, TableNamesEveryCategory) {
  const std::string table = ledger::table();
  for (int c = 0; c < kCategories; ++c)
    EXPECT_NE(table.find(name(static_cast<Category>(c))), std::string::npos);
}

}  // namespace
}  // namespace ebb
