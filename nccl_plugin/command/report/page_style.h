// The style of the report's page.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_PAGE_STYLE_H_
#define NCCL_PLUGIN_COMMAND_REPORT_PAGE_STYLE_H_

namespace ringpress::nccl_plugin::command::report {

/// Light and dark, as the reader's system says. Colours are those of Okabe and Ito, which
/// colour-blind people tell apart, made darker or lighter where they would be hard to see.
inline constexpr const char* kPageStyle = R"(
:root { color-scheme: light dark; --ink: #1b2530; --soft: #55616d; --line: #d3dae1; --paper: #fff;
  --card: #f3f6f9; --note: #8a3b00; --link: #00579c;
  --c0: #0072b2; --c1: #c05000; --c2: #007a59; --c3: #a0447a; --c4: #8a6a00; --c5: #3f4b57;
  --c6: #2d8fb8; --c7: #7d3ac1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf2; --soft: #aab6c2; --line: #3a4550;
  --paper: #12171d; --card: #1b232b; --note: #ffb27a; --link: #8cc8ff;
  --c0: #56b4e9; --c1: #ff9a4d; --c2: #3ecfa3; --c3: #e79ac6; --c4: #e6c84f; --c5: #b5c0cb;
  --c6: #9adcf5; --c7: #c3a1f0; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0; }
header, main, footer { max-width: 66rem; margin: 0 auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 1.5rem 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p, li { max-width: 46rem; overflow-wrap: anywhere; } p { margin: .4rem 0; }
.lead { font-size: 1.15rem; } .soft, caption, figcaption { color: var(--soft); }
.note { color: var(--note); } a { color: var(--link); }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; list-style: none; }
.advice { background: var(--card); border-left: 4px solid var(--c0); padding: .5rem .8rem;
  margin: .5rem 0; max-width: 48rem; } .advice h3 { margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: .8rem 0; padding: 0; list-style: none; }
.tiles li { background: var(--card); padding: .5rem .7rem; } .tiles strong { display: block;
  font-size: 1.3rem; }
.box { overflow-x: auto; margin: .6rem 0; } .box:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .2rem 0; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; min-width: 4.5rem; } thead th { color: var(--soft); font-weight: 600; }
tbody th { font-weight: 400; } td.n, th.n { text-align: right; white-space: nowrap; }
.bar { display: block; width: 14rem; height: 1rem; margin: .25rem 0; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; }
.chart { display: block; width: 100%; max-width: 44rem; height: auto; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.grid { stroke: var(--line); fill: none; } .line { fill: none; stroke-linejoin: round; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; padding: 0; margin: .3rem 0;
  list-style: none; } .legend svg { vertical-align: middle; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--link); }
.s0 { stroke: var(--c0); stroke-width: 5; } .s1 { stroke: var(--c1); stroke-width: 4;
  stroke-dasharray: 9 5; } .s2 { stroke: var(--c2); stroke-width: 3.4; stroke-dasharray: 2 4; }
.s3 { stroke: var(--c3); stroke-width: 3; stroke-dasharray: 12 4 3 4; }
.s4 { stroke: var(--c4); stroke-width: 2.6; stroke-dasharray: 5 3; }
.s5 { stroke: var(--c5); stroke-width: 2.2; } .s6 { stroke: var(--c6); stroke-width: 1.8;
  stroke-dasharray: 3 6; } .s7 { stroke: var(--c7); stroke-width: 1.4; stroke-dasharray: 14 3 2 3; }
.model { stroke-width: 1.4; }
circle { stroke-width: 1.6; stroke-dasharray: none; fill: var(--paper); }
circle.s0, circle.s1, circle.s2, circle.s3, circle.s4, circle.s5, circle.s6, circle.s7 {
  stroke-width: 1.8; stroke-dasharray: none; }
.p0 { fill: var(--c0); } .p1 { fill: var(--c1); } .p2 { fill: var(--c2); } .p3 { fill: var(--c3); }
.p4 { fill: var(--c4); } .p5 { fill: var(--c5); } .p6 { fill: var(--c6); } .p7 { fill: var(--c7); }
footer { color: var(--soft); padding: 2rem 1rem; }
@media (max-width: 40rem) { svg text { font-size: 15px; } body { font-size: 15px; }
  .bar { width: 9rem; } }
@media print { .box { overflow: visible; } }
)";

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_PAGE_STYLE_H_
