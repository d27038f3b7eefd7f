"""Snippets of languages with braces: "@|" ends a segment at a line end, "@=|" a block too."""

SNIPPETS = {
    "c": """\
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
  for (i = 0;
       i < 3;
       i++)@|
  do@|
    z();@|
  while (1);@|
}@|
@=|
struct s {@|
};@=|
int t[] = {
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
};@=|
template <class T,
          ENABLE_IF(is_same<T,
                            int>::value)>
LIB_API auto h(T x)
    -> int {@|
}@=|
void f() {@|
  auto g = [](int a,
     int b) {@|
  };@|
  try {@|
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
    public class C : D
    {@|
        public void F(int a,
            int b)
        {@|
            if (a)@|
                b();@|
            else
            {@|
            }@|
            try
            {@|
            }@|
            catch (E e)
            {@|
            }@|
        }@|
    }@|
}@=|
""",
    "go": """\
@|
import (@|
)@|
@=|
// doc@|
func f(a int,
\tb int) error {@|
\tswitch a {@|
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
\t}@|
}@|
@=|
type S struct {@|
}@=|
var x = `a
b`@=|
""",
    "java": """\
@|
import b.c;@|
@=|
/**
 */@|
public class A {@|
  public void f(int a,
      int b)
      throws E {@|
    list.stream()
      .map(x -> {@|
      })
      .toList();@|
    if (a) b();@|
    else@|
      c();@|
    switch (a) {@|
    }@|
  }@|
}@=|
""",
    "javascript": """\
import {
} from 'x';@=|
// doc@|
export function f(a,
  b) {@|
}@=|
for (let i = 0;
  i < 1;
  i++)@|
if (a)@|
  b();@|
else {@|
}@|
switch (a) {@|
}@=|
""",
    "php": """\
 a@|
</h1>@|
<?php@=|
namespace A;@=|
/** doc
 */@|
class B extends C
{@|
    public function f(
    ) {@|
        foreach ($a as $b)@|
            c();@|
    }@|
}@=|
""",
    "rust": """\
@=|
/// doc@|
#[derive(A,
  B)]@|
pub fn f(a: i32,
    b: i32) -> i32
{@|
    match x {@|
    }@|
}@=|
struct S {@|
}@=|
impl S {@|
}@=|
""",
    "tsx": """\
const A = () => {@|
  return (@|
    <div
      a="b">@|
      text@|
      {f(1,
        2)}@|
    </div>
  );@|
};@=|
""",
    "typescript": """\
interface A {@|
}@=|
class B<T>
  extends C {@|
    1;@|
}@=|
""",
}
