"""Snippets of languages with braces: "@|" ends a segment at a line end, "@=|" a block too."""

SNIPPETS = {
    "c": """\
#include <a.h>@|
#define X(a) \\
  (a)@=|
/* doc
   of f */@|
static int
f(int a,
  int b)
{@|
  if (a)@|
    g(a,
      b);@|
  else@|
    h();@|
  for (i = 0;
       i < 3;
       i++)@|
    k();@|
  switch (a) {@|
  case 1:@|
    x();@|
    break;@|
  }@|
  do@|
    z();@|
  while (1);@|
  return a +
    b;@|
}@|
@=|
struct s {@|
  int a;@|
  int b;@|
};@=|
int t[] = {
  1,
  2
};@=|
#ifdef A@|
int q;@=|
void f(void) { }@=|
#else@|
int r;@|
#endif@=|
""",
    "cpp": """\
namespace a {@=|
template <class T>
class A : public B,
          public C {@|
 public:@|
  A() : x(1),
    y(2) {@|
  }@|
  int x;@|
};@=|
template <class T,
          ENABLE_IF(is_same<T,
                            int>::value)>
LIB_API auto h(T x)
    -> int {@|
  return x;@|
}@=|
void f() {@|
  auto g = [](int a,
     int b) {@|
    return a;@|
  };@|
  try {@|
    x();@|
  }@|
  catch (E& e) {@|
  }@|
}@|
}@=|
""",
    "csharp": """\
using A;@|
@=|
namespace B
{@=|
    [Attr]
    public class C : D
    {@|
        public int X { get; set; }@|
        public void F(int a,
            int b)
        {@|
            var x = a
                .Where(y => y)
                .ToList();@|
            if (a)@|
                b();@|
            else
            {@|
                c();@|
            }@|
            try
            {@|
                a();@|
            }@|
            catch (E e)
            {@|
                b();@|
            }@|
            list.Each(x =>
            {@|
                y();@|
            });@|
        }@|
    }@|
}@=|
""",
    "go": """\
package a@|
@|
import (@|
\t"a"@|
\t"b"@|
)@|
@=|
// doc@|
func f(a int,
\tb int) error {@|
\tx := g(1,
\t\t2)@|
\tif err != nil {@|
\t\treturn err@|
\t} else {@|
\t\tb()@|
\t}@|
\tgo func() {@|
\t\tz()@|
\t}()@|
\tswitch a {@|
\tcase 1,
\t\t2:@|
\t\tb()@|
\t}@|
\tswitch a.(type) {@|
\tcase A,
\t\tB:@|
\t\t// c@|
\t\tb()@|
\t}@|
retry:@|
\tc := 1@|
\tt := []T{
\t\t{1},
\t}@|
}@|
@=|
type S struct {@|
\tA int@|
\tB int@|
}@=|
var x = `a
b`@=|
""",
    "java": """\
package a;@|
@|
import b.c;@|
@=|
/**
 * Doc
 */@|
@Ann(
  x = 1)
public class A {@|
  private int x =
    1;@|
  @Override
  public void f(int a,
      int b)
      throws E {@|
    list.stream()
      .map(x -> {@|
        return x;@|
      })
      .toList();@|
    if (a) b();@|
    else@|
      c();@|
    try {@|
      a();@|
    } catch (E e) {@|
      b();@|
    }@|
    switch (a) {@|
      case 1:@|
        b();@|
        break;@|
    }@|
  }@|
}@=|
""",
    "javascript": """\
import {
  a,
  b
} from 'x';@=|
// doc@|
export function f(a,
  b) {@|
  return a
    .b()
    .c();@|
}@=|
describe('x', () => {@|
  it('y', function() {@|
    foo(1,
      2);@|
  });@|
});@|
const s = `a
 b`;@|
const o = {
  a: 1,
  f() {@|
    x();@|
    y();@|
  },
};@|
for (let i = 0;
  i < 1;
  i++)@|
  f();@|
if (a)@|
  b();@|
else {@|
  c();@|
}@|
switch (a) {@|
  case 1:@|
    b();@|
}@=|
""",
    "php": """\
<h1>@|
 a@|
</h1>@|
<?php@=|
namespace A;@=|
/** doc
 */@|
class B extends C
{@|
    public function f(
        $a,
        $b
    ) {@|
        if ($a) {@|
            b();@|
        } elseif ($b) {@|
            c();@|
        }@|
        $x = [
            1,
        ];@|
        foreach ($a as $b)@|
            c();@|
        return $this->a()
            ->b();@|
    }@|
}@=|
""",
    "rust": """\
use a::{
    b,
    c,
};@|
@=|
/// doc@|
#[derive(A,
  B)]@|
pub fn f(a: i32,
    b: i32) -> i32
where
    T: X,
{@|
    let x = a
        .b()
        .c();@|
    match x {@|
        A => 1,@|
        B => {@|
            c();@|
        }@|
    }@|
    if a {@|
        b@|
    } else {@|
        c@|
    }@|
    v.iter().map(|x| {@|
        x + 1@|
    });@|
}@=|
struct S {@|
    a: i32,@|
    b: i32,@|
}@=|
impl S {@|
    fn g() {}@|
}@=|
""",
    "tsx": """\
const A = () => {@|
  return (@|
    <div
      a="b">@|
      text@|
      more@|
      <b>x</b>@|
      {f(1,
        2)}@|
    </div>
  );@|
};@=|
""",
    "typescript": """\
interface A {@|
  a: string;@|
  b(x: number,
    y: number): void;@|
}@=|
@D({
  a: 1
})
class B<T>
  extends C {@|
  private x: number =
    1;@|
}@=|
type X =
  | A
  | B;@=|
""",
}
