"""A number typed by hand in the template is found; what is not a number of the paper is left alone."""

from pathlib import Path

import pytest

from layernorm_backward.paper import literals
from layernorm_backward.paper.render import environment

JINJA = environment(Path())


def found(text: str) -> list[str]:
    return [literal.text for literal in literals.find(text, JINJA)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The error is 5.04e-11.", ["5.04e-11"]),
        ("It took 3 ms, or 1,024 cycles.", ["3", "1,024"]),
        ("A row of D=1024 elements", ["1024"]),
        ("a share of 20 %", ["20"]),
        ("offsets from 10⁴", ["10⁴"]),
        ("one half is ½", ["½"]),
        ("# The 3 passes {#sec:passes}", ["3"]),
        ("| naive | 2.5 |", ["2.5"]),
        (": At 4096 columns. {#tbl:x}", ["4096"]),
        ("![At 4096 columns](figures/x){#fig:x}", ["4096"]),
        ("see Figure 3 and Section 2.1", ["3", "2.1"]),
        (r"an error of $5.04 \times 10^{-11}$", ["5.04", "10^{-11}"]),
        ("$$ D = 1024 $$ {#eq:d}", ["1024"]),
        ("$u = 10^{-8}$", ["10^{-8}"]),
        ("$x^{2.5}$ and $a_{0.5}$", ["2.5", "0.5"]),
        (r"the sum $<< n.a.tex >> + 17$", ["17"]),
        ("<< 5.04 >>", ["5.04"]),
        ('<< "5.04e-11" >>', ["5.04e-11"]),
        ("<% set x = 12 %>", ["12"]),
        ("<% if n.a.value > 2 %>about 40<% endif %>", ["40"]),
        ("`code` and 7 words", ["7"]),
        ("it costs $2 or 30 more", ["2", "30"]),
        ("it costs $5-$30", ["5", "30"]),
        (r"$x \cdot12$", ["12"]),
        ("$u = {10}^{-8}$", ["10}^{-8}"]),
        ("a 20-core machine", ["20"]),
        ("12 and again 12", ["12"]),
    ],
)
def test_a_number_typed_by_hand_is_found(text: str, numbers: list[str]) -> None:
    assert sorted(found(text)) == sorted(numbers)


@pytest.mark.parametrize(
    "text",
    [
        "<< n.naive_slope >> and << c('1e-5') >>",
        "<# 12 hours were spent #>",
        "<!-- 12 hours -->",
        "float32, bfloat16, Qwen3.6-27B, MiniMax-M2.7, AVX2",
        "a 16-bit dtype, the 2-norm of a row",
        "`x[0:128]` and ``a ` 12``",
        "```\nfor i in range(1024):\n```",
        "~~~python\nx = 3.5\n~~~",
        "[@higham2002; @chan1983] and @arxiv250310251 and -@eq:step2",
        "![Caption](figures/x2.pdf){#fig:x2 width=80%}",
        "# Method {#sec:method2 .unnumbered}",
        "1. first\n2. second",
        "a footnote[^1]",
        "https://doi.org/10.1137/1.9780898718027",
        "[a page](https://example.org/2024/10)",
        r"$x^{2}$, $\frac{1}{2}$, $\tfrac12 x$, $c_1$, $2\pi$, $D = 2, 3, 4$, $x_{10}$, $2^{24}$, $x^{-1/2}$",
        r"$$ \begin{aligned} a &= b \\[4pt] c &= d \end{aligned} $$ {#eq:two}",
        r"$\kappa = << n.kappa.tex >>$, never $\mathrm{float32}$",
        "<% for row in rows('variance') %><< row.kernel >><% endfor %>",
        r"$$ a \\[10em] b \\[10ex] c \\[10mm] d \\[10cm] e $$",
        "three of the seven kernels",
        "it costs \\$<< n.price >>",
        "| a | b |\n|:--|--:|\n| << n.a >> | << n.b >> |",
    ],
)
def test_what_is_no_number_of_the_paper_is_left_alone(text: str) -> None:
    assert found(text) == []


def test_a_decimal_without_its_zero_is_found() -> None:
    assert found("$.5 x$") == [".5"]


def test_numbers_come_in_the_order_of_their_lines() -> None:
    assert [(it.line, it.text) for it in literals.find("$x + 99$\n\n11\n", JINJA)] == [(1, "99"), (3, "11")]
    assert [it.line for it in literals.find("11\n\n$x + 99$, << 5 >>\n", JINJA)] == [1, 3, 3]


def test_the_message_names_file_line_number_and_remedy() -> None:
    text = "Title\n\nThe slope is << n.slope >>,\nnot 1.98.\n"
    assert literals.message(literals.find(text, JINJA), "paper.md.j2") == (
        "paper.md.j2:4: number typed by hand: 1.98; print a measured one with << n.name >>, "
        'mark a true constant with << c("1.98") >>'
    )


def test_the_line_is_right_after_blocks_that_are_skipped() -> None:
    text = "```\n1\n2\n```\n<# 3\n4 #>\n<< n.a\n>> and 99"
    assert [(it.line, it.text) for it in literals.find(text, JINJA)] == [(8, "99")]
